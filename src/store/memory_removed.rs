//! What a store in memory knows of removals of shared files.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::Error;
use super::removals::FileHash;

/// What services agree on about removals.
#[derive(Default)]
pub(super) struct Removed {
    /// How many groups of removals are over.
    pub(super) count: u64,
    pub(super) files: BTreeMap<FileHash, Removal>,
    pub(super) turn: Option<(Uuid, i64)>,
    pub(super) looked_at: Option<FileHash>,
    pub(super) all_looked_at: Option<i64>,
}

pub(super) struct Removal {
    pub(super) begun_by: Uuid,
    pub(super) begun_at: i64,
    pub(super) number: Option<u64>,
}

impl Removed {
    /// Whether files that are named now, and were put after so many removals, are there.
    pub(super) fn admit(&self, files: &[FileHash], put_after: u64) -> Result<(), Error> {
        let gone = |file: &FileHash| {
            let removal = self.files.get(file);
            removal.is_some_and(|removal| removal.number.is_none_or(|number| number > put_after))
        };
        if files.iter().any(gone) { Err(Error::FilesRemoved) } else { Ok(()) }
    }
}
