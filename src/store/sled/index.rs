//! The database of the rows whose generation is gone. Only the compactor writes to it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::damage::engine_failed;
use super::database::{Database, unavailable};
use super::rows::row_in;
use super::{folder, keys};
use crate::store::{Error, IndexKey};

/// sled's page cache for finished runs, which are listed and looked up.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// What is kept free for a batch of short rows, and for what sled has not written yet.
const BATCH_ROOM: u64 = 4 * 1024 * 1024;

pub(super) struct Index {
    pub(super) number: u64,
    pub(super) database: Database,
    /// What its rows take, with their keys.
    row_bytes: AtomicU64,
    /// When it was opened: the newest generation whose rows, and those of all older ones, are here.
    pub(super) settled: Option<u64>,
}

impl Index {
    pub(super) fn create(store_dir: &Path, number: u64) -> Result<Index, Error> {
        let database = Database::create(&folder::index_dir(store_dir, number), CACHE_BYTES)?;
        Self::of(number, database)
    }

    pub(super) fn open(store_dir: &Path, number: u64) -> Result<Index, Error> {
        let database = Database::open(&folder::index_dir(store_dir, number), CACHE_BYTES)?;
        Self::of(number, database)
    }

    fn of(number: u64, database: Database) -> Result<Index, Error> {
        let number_in = |key| {
            let bytes = database.db()?.get(key).map_err(engine_failed)?;
            Ok::<_, Error>(bytes.and_then(|bytes| bytes.as_ref().try_into().ok().map(u64::from_be_bytes)))
        };
        let row_bytes = number_in(keys::ROW_BYTES_KEY)?.unwrap_or(0);
        let settled = number_in(keys::SETTLED_KEY)?;
        Ok(Index { number, database, row_bytes: AtomicU64::new(row_bytes), settled })
    }

    pub(super) fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.database.db()?.is_empty())
    }

    pub(super) fn row_bytes(&self) -> u64 {
        self.row_bytes.load(Ordering::Relaxed)
    }

    /// Puts rows, or removes them; durable after the next sync of the database. Without room nothing is changed.
    pub(super) fn write(&self, changes: Vec<(IndexKey, Option<Bytes>)>) -> Result<(), Error> {
        let written: usize = changes.iter().map(|(_, row)| row.as_ref().map_or(0, Bytes::len)).sum();
        // With sled's own copies of pages.
        self.database.keep_room_for(BATCH_ROOM.max(4 * written as u64))?;
        let mut batch = sled::Batch::default();
        let mut bytes = self.row_bytes();
        for (key, row) in changes {
            let key_bytes = keys::row_key(&key).len();
            if let Some(Some(old)) = row_in(&self.database, &key)? {
                keys::keys_of_row(&key, old.len()).for_each(|key| batch.remove(key));
                bytes = bytes.saturating_sub((key_bytes + old.len()) as u64);
            }
            if let Some(row) = row {
                keys::lay_out_row(&key, &row, |key, value| batch.insert(key, value));
                bytes += (key_bytes + row.len()) as u64;
            }
        }
        batch.insert(keys::ROW_BYTES_KEY, &bytes.to_be_bytes());
        self.database.db()?.apply_batch(batch).map_err(unavailable)?;
        self.row_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Notes that the rows of this generation and of all older ones are here; durable when `Ok`.
    pub(super) fn settle(&self, generation: u64) -> Result<(), Error> {
        self.database.keep_room_for(BATCH_ROOM)?;
        // The rows are durable first.
        self.database.sync()?;
        self.database.db()?.insert(keys::SETTLED_KEY, &generation.to_be_bytes()).map_err(unavailable)?;
        self.database.sync()
    }

    /// The same rows in a fresh database. `go_on` is asked now and then.
    pub(super) fn written_anew(&self, store_dir: &Path, go_on: impl Fn() -> Result<(), Error>) -> Result<Index, Error> {
        let number = self.number + 1;
        let fill = |fresh: &Database| {
            let mut bytes = 0;
            let (worn, fresh) = (self.database.db()?, fresh.db()?);
            for (at, entry) in worn.iter().enumerate() {
                let (key, value) = entry.map_err(engine_failed)?;
                if key != keys::ROW_BYTES_KEY {
                    bytes += (key.len() + value.len()) as u64;
                    fresh.insert(key, value).map_err(unavailable)?;
                }
                if at % 256 == 0 {
                    go_on()?;
                }
            }
            fresh.insert(keys::ROW_BYTES_KEY, &bytes.to_be_bytes()).map_err(unavailable)?;
            Ok(())
        };
        Self::of(number, Database::create_with(&folder::index_dir(store_dir, number), CACHE_BYTES, fill)?)
    }
}
