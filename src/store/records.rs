//! Small records that all services on one store share, such as which version of a skill is installed.
//!
//! A record is named by its kind and a key. Every change of a kind raises the revision of the kind, and the record then has that
//! revision. So who knows the revision of a kind knows by one cheap question whether anything of it changed.

use bytes::Bytes;
use tokio::sync::watch;

use super::{BoxFuture, Error};

/// The most bytes that a record may hold.
pub const MAX_RECORD_BYTES: usize = 1024 * 1024;
/// The most bytes that a key may have.
const MAX_KEY_BYTES: usize = 512;

/// One record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub key: String,
    /// That of its kind when it was last changed: no two changes of a kind have the same.
    pub revision: u64,
    pub value: Bytes,
}

/// All records of a kind at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordList {
    /// 0 if there never was one.
    pub revision: u64,
    /// By key.
    pub records: Vec<Record>,
}

/// What the record must be for a change to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Absent,
    /// There, and last changed at this revision.
    At(u64),
    Any,
}

/// A change of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    pub kind: &'static str,
    pub key: String,
    pub expected: Expected,
    /// `None` removes the record.
    pub value: Option<Bytes>,
    /// The shared files, by their SHA-256, that are kept as long as the record is this one. Put them before it names them.
    pub files: Vec<[u8; 32]>,
    /// How many removals were over before those of the files were put that the record did not name yet
    /// ([`EventStore::removals`](super::EventStore::removals)).
    pub put_after: u64,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// It is durable, and every service sees it from now on.
    Done {
        /// Of the record, and of its kind.
        revision: u64,
    },
    /// The record is not what was expected, and nothing was changed.
    Refused { found: Option<Record> },
}

/// The records that services on one store share.
pub trait Records: Send + Sync {
    fn record(&self, kind: &'static str, key: &str) -> BoxFuture<'_, Result<Option<Record>, Error>>;

    /// All records of a kind, and its revision at the same moment.
    fn records(&self, kind: &'static str) -> BoxFuture<'_, Result<RecordList, Error>>;

    /// The revisions of kinds, in their order: one cheap question. Whatever was acknowledged before is counted.
    fn record_revisions(&self, kinds: &[&'static str]) -> BoxFuture<'_, Result<Vec<u64>, Error>>;

    /// Changes a record if it is what is expected. Changes of a kind are made one after the other. Removing what is not there
    /// changes no revision. [`Error::FilesRemoved`] if one of its files is being removed, or was after it was put: nothing was
    /// changed then, and all of them are to be put again.
    fn change_record(&self, change: RecordChange) -> BoxFuture<'_, Result<Changed, Error>>;

    /// Changes whenever records may have: the number has no meaning. It may come late, without reason, or not at all where
    /// notifications are lost: whoever waits looks for itself now and then.
    fn records_changed(&self) -> watch::Receiver<u64>;
}

/// Refuses what no back end stores.
pub(super) fn check(change: &RecordChange) -> Result<(), Error> {
    let bytes = change.value.as_ref().map_or(0, Bytes::len);
    if bytes > MAX_RECORD_BYTES {
        return Err(Error::TooLarge { bytes, limit: MAX_RECORD_BYTES });
    }
    let key = &change.key;
    if key.is_empty() || key.len() > MAX_KEY_BYTES || key.contains('\0') {
        return Err(Error::Malformed { reason: format!("a record cannot have the key {key:?}") });
    }
    Ok(())
}
