//! Files made shorter.

use std::path::Path;

use super::error::Error;
use super::open::open_regular_to_write;
use super::step::step;

/// Cuts a file to this length, if it is longer. A link or a pipe in its place is refused: whoever may write in the folder could
/// have another file cut.
pub(crate) fn cut(path: &Path, length: u64) -> Result<(), Error> {
    let file = open_regular_to_write(path)?;
    if file.metadata().map_err(Error::on("look at", path))?.len() > length {
        step("cut", path)?;
        file.set_len(length).map_err(Error::on("cut", path))?;
    }
    Ok(())
}
