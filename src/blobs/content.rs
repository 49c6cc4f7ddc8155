//! Content on its way: hashed while it is read, and held against what it should be.

use std::io::{Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::Error;
use super::shared::Blob;
use crate::files;

/// The hash of a shared file as text, by which it is named.
pub(super) fn name(blob: &Blob) -> String {
    hex::encode(blob.sha256)
}

/// The hash that a name stands for: 64 lower case digits, and nothing else.
pub(super) fn hash_of(name: &str) -> Option<[u8; 32]> {
    let hash: [u8; 32] = hex::decode(name).ok()?.try_into().ok()?;
    (hex::encode(hash) == name).then_some(hash)
}

pub(super) fn missing(blob: &Blob) -> Error {
    Error::NotFound { sha256: name(blob) }
}

pub(super) fn damaged(blob: &Blob, reason: impl Into<String>) -> Error {
    Error::Damaged { sha256: name(blob), reason: reason.into() }
}

/// Hash and size of what has passed.
#[derive(Default)]
pub(super) struct Passed {
    hash: Sha256,
    size: u64,
}

impl Passed {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.size = self.size.saturating_add(bytes.len() as u64);
    }

    pub(super) fn blob(self) -> Blob {
        Blob { sha256: self.hash.finalize().into(), size: self.size }
    }

    /// Whether all that came is the shared file that was asked for.
    pub(super) fn check(self, wanted: &Blob) -> Result<(), Error> {
        let size = self.size;
        match self.blob() {
            found if found == *wanted => Ok(()),
            _ if size != wanted.size => {
                Err(damaged(wanted, format!("it has {size} bytes and should have {}", wanted.size)))
            }
            found => Err(damaged(wanted, format!("its content has the hash {}", name(&found)))),
        }
    }

    /// Whether more has come than there should be, so that the rest need not be read.
    pub(super) fn is_beyond(&self, wanted: &Blob) -> bool {
        self.size > wanted.size
    }
}

pub(super) fn of_bytes(bytes: &[u8]) -> Blob {
    let mut passed = Passed::default();
    passed.add(bytes);
    passed.blob()
}

/// Hash and size of a file of this machine.
pub(super) fn of_file(path: &Path) -> Result<Blob, Error> {
    let file = files::open_regular(path)?;
    let mut passed = Passed::default();
    files::for_each_chunk(file, files::Error::on("read", path), |chunk| {
        passed.add(chunk);
        Ok(())
    })?;
    Ok(passed.blob())
}

/// Copies what is read to a writer, as long as it can be the shared file that is wanted, and checks that it is.
pub(super) fn copy_checked(
    from: impl Read,
    unreadable: impl FnOnce(std::io::Error) -> Error,
    mut to: impl Write,
    unwritable: impl Fn(std::io::Error) -> Error,
    wanted: &Blob,
) -> Result<(), Error> {
    let mut passed = Passed::default();
    files::for_each_chunk(from, unreadable, |chunk| {
        passed.add(chunk);
        if passed.is_beyond(wanted) {
            return Err(damaged(wanted, format!("it has more than {} bytes", wanted.size)));
        }
        to.write_all(chunk).map_err(&unwritable)
    })?;
    passed.check(wanted)
}
