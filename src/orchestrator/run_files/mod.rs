//! The files of runs where several services share them: a node's disk is a cache of what the shared files hold.
//!
//! A row of each run, [`Row`], names its shared files. A file outside the run's folder, the mark, says which of them are on this
//! disk. Without shared files nothing here does anything.

mod again;
mod cached;
mod finished;
mod held;
mod mark;
mod raw;
mod rest;
mod row;
mod sealed;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncGuard};
use tracing::warn;

use crate::blobs::{self, Blob, Blobs};
use crate::domain::causes::chain;
use crate::domain::ids::RunId;
use crate::files;
use crate::orchestrator::environment::Blocking;
use crate::orchestrator::error::Error;
use crate::store::{BoxFuture, EventStore, FileHash, ForOthers, IndexChange, IndexKey};
use crate::workspace::Layout;

pub(crate) use self::again::{Sources, append};
pub(crate) use self::cached::{Cached, Sizes, cached};
pub(crate) use self::held::Held;
pub(crate) use self::mark::Mark;
pub(crate) use self::rest::unpack_skill;
pub(crate) use self::row::Row;

/// Runs whose files are fetched at once, about.
const LOCKS: usize = 64;
/// Files of one run that are put or fetched at once.
const AT_ONCE: usize = 4;
/// How long shared files that cannot be reached are waited for, and how long between two tries.
const PATIENCE: Duration = Duration::from_secs(120);
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What an append carries for other services.
#[derive(Debug, Clone, Default)]
pub(crate) struct Along {
    pub rows: Vec<IndexChange>,
    /// The hashes of shared files that the run needs from now on, and no others.
    pub files: Vec<FileHash>,
    /// How many removals of shared files were over before they were put.
    pub put_after: u64,
    /// Where they are on this disk.
    pub sources: Option<Arc<Sources>>,
    /// What this disk holds once the append is there.
    pub mark: Option<Mark>,
}

impl Along {
    /// What the append carries besides the rows.
    pub(crate) fn fill(&self, for_others: &mut ForOthers) {
        if self.sources.is_some() {
            (for_others.files, for_others.put_after, for_others.only_these) =
                (self.files.clone(), self.put_after, true);
        }
    }
}

/// The files of runs on this node.
pub(crate) struct RunFiles {
    store: Arc<dyn EventStore>,
    layout: Layout,
    blocking: Blocking,
    blobs: Option<Arc<dyn Blobs>>,
    /// Runs that this process works on: their files here are newer than the shared ones.
    held: Mutex<HashSet<RunId>>,
    /// One fetch at a time for each run.
    locks: Vec<AsyncMutex<()>>,
}

impl RunFiles {
    pub(crate) fn new(
        store: Arc<dyn EventStore>,
        layout: Layout,
        blocking: Blocking,
        blobs: Option<Arc<dyn Blobs>>,
    ) -> Self {
        let locks = (0..LOCKS).map(|_| AsyncMutex::default()).collect();
        Self { store, layout, blocking, blobs, held: Mutex::default(), locks }
    }

    /// Whether files are shared with other services.
    pub(crate) fn are_shared(&self) -> bool {
        self.blobs.is_some()
    }

    /// The row of a run that names its shared files.
    async fn row(&self, run: RunId) -> Result<Option<Row>, Error> {
        let row = self.store.index(&IndexKey::Snapshot(run)).await?;
        row.map(|row| Row::read(run, &row)).transpose()
    }

    async fn lock(&self, run: RunId) -> AsyncGuard<'_, ()> {
        let place =
            run.as_bytes().iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
        match self.locks.get(place % LOCKS) {
            Some(lock) => lock.lock().await,
            None => std::future::pending().await,
        }
    }

    fn held(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this disk holds of a run that has a folder here. Somebody uses it now.
    async fn mark(&self, run: RunId) -> Result<Option<Mark>, Error> {
        let paths = self.layout.run(run);
        self.blocking
            .run("read what is known of a run's files", move || {
                let mark = Mark::read(&paths).filter(|_| paths.root.symlink_metadata().is_ok());
                if mark.is_some() {
                    mark::used(&paths);
                }
                mark
            })
            .await
    }

    async fn set_mark(&self, run: RunId, mark: Option<Mark>) -> Result<(), Error> {
        let paths = self.layout.run(run);
        let write = move || match mark {
            Some(mark) => mark.write(&paths),
            None => files::remove_file(&paths.state),
        };
        Ok(self.blocking.run("note which files of a run are here", write).await??)
    }

    /// An append is there: this disk holds what it says. What cannot be noted is fetched again when it is next needed.
    pub(crate) async fn settled(&self, run: RunId, mark: Option<Mark>) {
        if !self.are_shared() {
            return;
        }
        if let Err(error) = self.set_mark(run, mark).await {
            warn!(run.id = %run, error = %chain(&error), "it could not be noted which files of a run are on this disk");
        }
        self.held().remove(&run);
    }

    /// This process works on the run no more. What it left is used by whoever recovers the run here.
    pub(crate) fn released(&self, run: RunId) {
        self.held().remove(&run);
    }

    /// Another service has the run: what this disk holds of it is fetched again when it is next needed.
    pub(crate) fn forget(&self, run: RunId) {
        if self.are_shared() {
            let _ = files::remove_file(&self.layout.run(run).state);
            self.held().remove(&run);
        }
    }
}

/// Calls again while the shared files cannot be reached, for a while.
async fn patiently<'a, T>(mut call: impl FnMut() -> BoxFuture<'a, Result<T, blobs::Error>>) -> Result<T, Error> {
    let until = tokio::time::Instant::now() + PATIENCE;
    let mut is_told = false;
    loop {
        match call().await {
            Err(error @ blobs::Error::Unreachable { .. }) if tokio::time::Instant::now() < until => {
                if !is_told {
                    warn!(error = %chain(&error), "trying again for {} s", PATIENCE.as_secs());
                }
                is_told = true;
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            done => return Ok(done?),
        }
    }
}

/// The shared file with a hash in hexadecimal digits.
fn blob_of(sha256: &str, size: u64) -> Option<Blob> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(sha256, &mut bytes).ok()?;
    Some(Blob { sha256: bytes, size })
}

#[cfg(test)]
mod tests;
