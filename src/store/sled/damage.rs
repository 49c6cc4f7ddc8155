//! Errors of reading what a database holds.

use std::sync::Arc;

use crate::domain::ids::RunId;
use crate::store::Error;

/// The log of a run is not what this program writes.
pub(super) fn corrupt(run: &RunId, reason: &str) -> Error {
    Error::Corrupt { run: *run, reason: reason.to_owned() }
}

/// Something else is not what this program writes.
pub(super) fn damaged(what: String) -> Error {
    Error::Engine { action: "read", source: Error::cause(format!("{what} is damaged")) }
}

/// A read of a database failed.
pub(super) fn engine_failed(source: sled::Error) -> Error {
    Error::Engine { action: "read", source: Arc::new(source) }
}
