//! Runs that are older than the settings keep them are deleted by the service itself, soon after its start and every hour.

use std::sync::Weak;
use std::time::Duration;

use tracing::{debug, info, warn};

use crate::domain::causes::chain;
use crate::orchestrator::environment::unbroken;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::runs::Cleaned;
use crate::orchestrator::shared::Shared;

/// A start has more urgent things to do.
const FIRST_AFTER: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_secs(3600);

impl Orchestrator {
    /// Delete the runs that have ended and that the settings no longer keep, now.
    pub async fn retain(&self) -> Result<Cleaned, Error> {
        let cleaned = self.apply_retention().await?;
        let (runs, bytes) = (cleaned.runs_deleted, cleaned.bytes_freed);
        if runs > 0 {
            info!(runs, bytes, "deleted runs that are no longer kept (keep_days, keep_last, keep_labels)");
        } else {
            debug!("no run is older than it is kept");
        }
        Ok(cleaned)
    }
}

/// Does so now and then, until the service ends; never if runs are kept for ever.
pub(crate) async fn retain_often(shared: Weak<Shared>) {
    let mut pause = FIRST_AFTER;
    loop {
        match shared.upgrade() {
            Some(shared) if shared.settings.retention.deletes() => {}
            Some(_) | None => return,
        }
        tokio::time::sleep(pause).await;
        pause = EVERY;
        let Some(shared) = shared.upgrade().filter(|shared| !shared.closing.is_cancelled()) else { return };
        if let Some(Err(error)) = unbroken("delete old runs", (Orchestrator { shared }).retain()).await {
            warn!(error = %chain(&error), "runs that are no longer kept could not be deleted; trying again in an hour");
        }
    }
}
