//! Temporary runs: packages that were not removed at once are removed later, and runs whose package never comes end.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tracing::{info, warn};

use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::ids::RunId;
use crate::domain::outcome::RunError;
use crate::orchestrator::environment::unbroken;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::packages::temporary;
use crate::orchestrator::runs::sweep_homes::sweep_homes;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::turn::at_rest;

/// How often packages that are left are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// How long a run waits for its package.
const UPLOAD_WAITS: Duration = Duration::from_secs(24 * 3600);

impl Orchestrator {
    /// Remove the packages of runs that are over, and end runs that have waited for theirs for longer than this.
    pub async fn sweep_temp_runs(&self, upload_waits: Duration) {
        sweep(&self.shared, upload_waits).await;
    }
}

/// Sweep now and then, until the service ends.
pub(crate) async fn sweep_often(shared: Weak<Shared>) {
    loop {
        match shared.upgrade() {
            Some(shared) => {
                sweep(&shared, UPLOAD_WAITS).await;
                if shared.member.is_some() {
                    unbroken("look at runs that wait for files", release_moved(&shared)).await;
                }
                unbroken("sweep the homes of engines", sweep_homes(&shared)).await;
            }
            None => return,
        }
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}

async fn sweep(shared: &Arc<Shared>, upload_waits: Duration) {
    let runs: Vec<RunId> = shared.temp_runs().iter().copied().collect();
    for run in runs {
        let swept = unbroken("sweep a temporary run", sweep_run(shared, run, upload_waits)).await;
        if let Some(Err(error)) = swept {
            warn!(run.id = %run, error = %chain(&error), "a temporary run could not be swept");
        }
    }
}

/// Another service may have taken the files of a run, ended it or deleted it: then it waits no more.
async fn release_moved(shared: &Shared) {
    for run in shared.awaiting_files.runs() {
        let waits = match shared.log.head(run).await {
            Ok(head) => head.state.awaiting_upload && !head.state.status().is_final(),
            Err(Error::RunNotFound { .. }) => false,
            Err(_) => true,
        };
        if !waits {
            shared.awaiting_files.release(run);
        }
    }
}

async fn sweep_run(shared: &Arc<Shared>, run: RunId, upload_waits: Duration) -> Result<(), Error> {
    let state = match shared.log.head(run).await {
        Ok(head) => head.state,
        Err(Error::RunNotFound { .. }) => {
            shared.temp_runs().remove(&run);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if state.status().is_final() {
        if state.options.debug_keep_temp {
            shared.temp_runs().remove(&run);
        } else {
            temporary::remove(shared, &state).await;
        }
        return Ok(());
    }
    if !state.awaiting_upload || state.created_at.plus_seconds(upload_waits.as_secs()) > shared.clock.now() {
        return Ok(());
    }
    let _lock = shared.run_locks.lock(run).await;
    let mut journal = shared.journal(run).await?;
    if !journal.state().awaiting_upload || journal.state().status().is_final() {
        return Ok(());
    }
    info!(run.id = %run, "ending a run whose package never came");
    let message = "no skill_package was uploaded in time; create the run again and upload it";
    let error = RunError::new(ErrorCode::MissingInputFiles, message).with("missing", vec!["skill_package"]);
    at_rest::reject(shared, &mut journal, error).await
}
