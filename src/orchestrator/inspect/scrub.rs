//! The slow check of everything that is stored, in the background: what nobody reads is found damaged, too.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;
use tracing::{debug, info, warn};

use crate::domain::causes::chain;
use crate::domain::ids::RunId;
use crate::domain::time::Timestamp;
use crate::orchestrator::environment::unbroken;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::inspect::pace::Pace;
use crate::orchestrator::shared::Shared;

/// Rows looked at in one step.
const PAGE: usize = 64;
/// The shortest pause between two passes.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Most damaged runs that are named.
const NAMED_MAX: usize = 100;

/// What is known about the stored files of all runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IntegrityOfAll {
    /// How many runs have damaged files.
    pub damaged: usize,
    /// The first of them.
    pub damaged_runs: Vec<RunId>,
    pub scrub: ScrubState,
}

/// The check in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScrubState {
    pub bytes_per_second: u64,
    /// Finished runs checked since the service started.
    pub runs_checked: u64,
    /// How often all of them were.
    pub passes: u64,
    /// When that was last.
    pub last_pass_ended_at: Option<Timestamp>,
}

impl Orchestrator {
    /// What the event store can no longer do until the service is restarted, and the runs that it has lost.
    pub fn store_trouble(&self) -> Option<String> {
        let troubles: Vec<String> =
            self.shared.store.trouble().into_iter().chain(self.shared.lost_runs.in_words()).collect();
        (!troubles.is_empty()).then(|| troubles.join("; "))
    }

    /// What is known about the stored files of all runs.
    pub fn integrity(&self) -> IntegrityOfAll {
        let (shared, runs) = (&self.shared, self.damaged_runs());
        let state = &shared.scrubbed;
        IntegrityOfAll {
            damaged: runs.len(),
            damaged_runs: runs.into_iter().take(NAMED_MAX).collect(),
            scrub: ScrubState {
                bytes_per_second: shared.settings.scrub.bytes_per_second,
                runs_checked: state.checked.load(Ordering::Relaxed),
                passes: state.passes.load(Ordering::Relaxed),
                last_pass_ended_at: *state.ended_at.lock().unwrap_or_else(PoisonError::into_inner),
            },
        }
    }
}

/// Check all finished runs again and again, unless that is switched off.
pub(crate) async fn scrub_often(shared: Weak<Shared>) {
    loop {
        let Some(pause) = shared.upgrade().and_then(|shared| {
            let scrub = &shared.settings.scrub;
            (scrub.bytes_per_second > 0).then(|| Duration::from_secs(scrub.pause_seconds).max(PAUSE_MIN))
        }) else {
            return;
        };
        tokio::time::sleep(pause).await;
        if let Some(Err(error)) = unbroken("check stored files", pass(&shared)).await {
            warn!(error = %chain(&error), "the check of stored files broke off; it begins again later");
        }
    }
}

async fn pass(weak: &Weak<Shared>) -> Result<(), Error> {
    forget_deleted_runs(weak).await;
    let mut before = None;
    let mut checked = 0;
    loop {
        let Some(shared) = weak.upgrade() else { return Ok(()) };
        let rows = shared.log.rows(before, PAGE).await?;
        let Some((last, _)) = rows.last() else {
            shared.scrubbed.passes.fetch_add(1, Ordering::Relaxed);
            *shared.scrubbed.ended_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared.clock.now());
            info!(runs = checked, damaged = shared.log.damage().runs().len(), "all stored files were checked");
            return Ok(());
        };
        before = Some(*last);
        let runs: Vec<RunId> = rows.into_iter().map(|(run, _)| run).collect();
        drop(shared);
        for run in runs {
            let Some(shared) = weak.upgrade() else { return Ok(()) };
            if shared.closing.is_cancelled() {
                return Ok(());
            }
            let whole = unbroken("check the files of a run", check(&shared, run)).await;
            checked += u64::from(whole.unwrap_or_default());
        }
    }
}

/// A service that was killed while it deleted a damaged run leaves a finding about a run that is not there.
async fn forget_deleted_runs(weak: &Weak<Shared>) {
    let Some(shared) = weak.upgrade() else { return };
    for run in shared.log.damage().runs() {
        if let Err(Error::RunNotFound { .. }) = shared.log.head(run).await {
            shared.log.damage().deleted(run);
        }
    }
}

/// Check one run; whether it was over, and is still there.
async fn check(shared: &Arc<Shared>, run: RunId) -> bool {
    // What is on no disk but the shared one is checked by whoever fetches it.
    let used = shared.files().last_used(run);
    if shared.files().are_shared() && used.is_none() {
        return false;
    }
    let pace = Pace::new(shared.settings.scrub.bytes_per_second, shared.closing.clone());
    let checked = shared.log.check_run(run, pace).await;
    if let Some(moment) = used {
        shared.files().not_used_since(run, moment);
    }
    match checked {
        Ok(true) => {
            shared.scrubbed.checked.fetch_add(1, Ordering::Relaxed);
            true
        }
        Ok(false) => false,
        // It was deleted meanwhile.
        Err(Error::RunNotFound { .. }) => {
            shared.log.damage().deleted(run);
            false
        }
        Err(error) => {
            debug!(run.id = %run, error = %chain(&error), "a run could not be checked");
            false
        }
    }
}
