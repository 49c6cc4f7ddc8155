//! Sealed logs: shared before their events leave the store, fetched by whoever reads them elsewhere.

use std::path::PathBuf;
use std::sync::Arc;

use super::{RunFiles, Sources, again, patiently};
use crate::domain::ids::{RunId, Seq};
use crate::files;
use crate::orchestrator::error::Error;
use crate::store::{Append, ForOthers};

impl RunFiles {
    /// Puts the sealed log of a run whose events are still in the store, and says so in the run's row.
    pub(crate) async fn share_sealed(&self, run: RunId, head: Seq) -> Result<(), Error> {
        let Some(blobs) = &self.blobs else { return Ok(()) };
        let Some(path) = self.layout.run(run).sealed_log() else { return Ok(()) };
        let put_after = self.store.removals().await?;
        let sealed = patiently(|| blobs.put_file(&path)).await?;
        let mut row = self.row(run).await?.unwrap_or_default();
        if row.sealed == Some(sealed) {
            return Ok(());
        }
        row.sealed = Some(sealed);
        let append = Append {
            run,
            expected_head: head,
            events: Vec::new(),
            index: vec![row.put(run)?],
            require_absent: None,
            for_others: ForOthers { files: vec![sealed.sha256], put_after, ..ForOthers::default() },
        };
        let sources = Sources { blobs: blobs.clone(), files: vec![(path, sealed)], temporary: Vec::new() };
        again::append(self.store.clone(), append, Arc::new(sources)).await?;
        Ok(())
    }

    /// Fetches the sealed log of a run to this disk; none if none is shared.
    pub(crate) async fn fetch_sealed(&self, run: RunId) -> Result<Option<PathBuf>, Error> {
        let Some(blobs) = &self.blobs else { return Ok(None) };
        let Some(sealed) = self.row(run).await?.and_then(|row| row.sealed) else { return Ok(None) };
        self.has_room_for(sealed.size)?;
        let path = self.layout.run(run).sealed;
        let _alone = self.lock(run).await;
        let place = path.clone();
        let prepare = move || {
            files::create_parent(&place)?;
            files::remove_file(&place.with_extension("idx"))
        };
        self.blocking.run("fetch a sealed log", prepare).await??;
        patiently(|| blobs.fetch(&sealed, &path)).await?;
        Ok(Some(path))
    }
}
