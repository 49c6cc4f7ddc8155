//! An append that names shared files: if one of them was removed since it was put, all are put again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::NamedTempFile;
use tokio::time::Instant;
use tracing::{info, warn};

use super::patiently;
use crate::blobs::{Blob, Blobs};
use crate::domain::causes::chain;
use crate::orchestrator::error::Error;
use crate::store::removals::BEGUN_FOR;
use crate::store::{self, Append, AppendResult, EventStore};

/// Longer than a removal can be under way.
const PATIENCE: Duration = BEGUN_FOR.saturating_add(Duration::from_secs(120));
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Where files on this disk are that were put.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) files: Vec<(PathBuf, Blob)>,
    /// Those of them that go with this.
    pub(super) temporary: Vec<NamedTempFile>,
}

impl Sources {
    /// How many removals were over before they were put again.
    async fn put(&self, store: &dyn EventStore) -> Result<u64, Error> {
        let put_after = store.removals().await?;
        for (path, blob) in &self.files {
            let put = patiently(|| self.blobs.put_file(path)).await?;
            if put != *blob {
                return Err(Error::Blobs(crate::blobs::Error::Changed { path: path.display().to_string() }));
            }
        }
        Ok(put_after)
    }
}

/// Appends, and puts the files again as long as they are being removed.
pub(crate) async fn append(store: Arc<dyn EventStore>, mut append: Append, sources: Arc<Sources>) -> AppendResult {
    let until = Instant::now() + PATIENCE;
    loop {
        match store.append(append.clone()).await {
            Err(store::Error::FilesRemoved) if Instant::now() < until => {}
            done => return done,
        }
        info!(run.id = %append.run, "shared files of a run were removed since they were put; putting them again");
        tokio::time::sleep(AGAIN_AFTER).await;
        match sources.put(&*store).await {
            Ok(put_after) => append.for_others.put_after = put_after,
            Err(error) => {
                warn!(run.id = %append.run, error = %chain(&error), "shared files of a run could not be put again");
                return Err(store::Error::FilesRemoved);
            }
        }
    }
}
