//! A file of any length, read in bounded memory.

use std::io::{self, Read};

const CHUNK_BYTES: usize = 64 * 1024;

/// Reads to the end and passes on every chunk. `unreadable` turns a failed read into the caller's error.
pub(crate) fn for_each_chunk<E>(
    mut from: impl Read,
    unreadable: impl FnOnce(io::Error) -> E,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => each(chunk.get(..count).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
}
