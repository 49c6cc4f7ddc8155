//! The async runtime of the commands that run skills.

use crate::cli::failure::Failure;

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::broken("start the runtime"))
}
