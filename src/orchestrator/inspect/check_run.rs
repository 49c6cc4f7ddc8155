//! Whether everything that is stored of a finished run is what it was: its log, its row and every file that its proof names.

use crate::domain::ids::RunId;
use crate::orchestrator::error::Error;
use crate::orchestrator::inspect::pace::Pace;
use crate::orchestrator::inspect::proven_run::ProvenRun;
use crate::orchestrator::log::run_log::RunLog;

/// What a row is named by in findings.
const ROW: &str = "store";

impl RunLog {
    /// Check a run that is over, without haste; what is wrong is noted, what is whole again is cleared. Whether it is over.
    pub(crate) async fn check_run(&self, run: RunId, mut pace: Pace) -> Result<bool, Error> {
        let head = self.head(run).await?;
        if !head.state.status().is_final() {
            return Ok(false);
        }
        let mut whole = match self.fold(run, head.state.head_seq).await {
            Ok(folded) => {
                let mut expected = folded.state;
                // Rows of older versions do not name it.
                expected.cached_from = expected.cached_from.filter(|_| head.state.cached_from.is_some());
                let same = expected == head.state && folded.chain == head.chain;
                if !same {
                    self.damaged(run, ROW, "the run's row differs from the state of its events".to_owned());
                }
                same
            }
            // Noted by whoever found it.
            Err(Error::Damaged { .. } | Error::FilesGone { .. }) => false,
            Err(Error::Corrupt { message, .. }) => {
                self.damaged(run, crate::domain::run_file::RunFile::Events.name(), message);
                false
            }
            Err(error) => return Err(error),
        };
        whole &= match self.proven_in_folder(run).await {
            Ok(Some(proven)) => {
                let check = move || check_files(&proven, &mut pace);
                self.blocking().run("check a run's files", check).await??
            }
            Ok(None) => self.result(&head.state).await.is_ok(),
            Err(Error::Damaged { .. } | Error::FilesGone { .. }) => false,
            Err(error) => return Err(error),
        };
        if whole {
            self.damage().clear_run(run);
        }
        Ok(true)
    }
}

/// Reads every file that the proof names; whether all are whole.
fn check_files(proven: &ProvenRun, pace: &mut Pace) -> Result<bool, Error> {
    let all = match proven.all() {
        Ok(all) => all,
        Err(Error::Damaged { .. } | Error::FilesGone { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut whole = true;
    for (path, expected) in all {
        match proven.check(&path, expected, pace) {
            Ok(()) => {}
            Err(Error::Damaged { .. }) => whole = false,
            Err(error) => return Err(error),
        }
    }
    Ok(whole)
}
