//! When the files of a run are shared with other services, and when they are had from them.

use std::sync::Arc;

use crate::domain::command::LastFiles;
use crate::domain::state::RunState;
use crate::orchestrator::error::Error;
use crate::orchestrator::run_files::{Along, Held, RunFiles, unpack_skill};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::skills::is_whole;
use crate::workspace::shared_skills;

impl Shared {
    /// The files of runs on this node.
    pub(crate) fn files(&self) -> &Arc<RunFiles> {
        self.log.files()
    }

    /// Makes the files of a run on this disk what they were when it came to rest, for somebody who changes them now.
    pub(crate) async fn ensure_files(self: &Arc<Self>, state: &RunState) -> Result<Held, Error> {
        let held = self.files().take(state).await?;
        if let Some(skill) = self.files().shared_skill(state.run_id).await? {
            let (owned, asked) = (self.clone(), state.clone());
            let here = self.blocking.run("look for the skill", move || owned.shared_skill(&asked)).await??;
            if here.is_none() {
                let archive = self.files().fetch_skill(skill).await?;
                let (owned, state) = (self.clone(), state.clone());
                let make = move || {
                    let (fingerprint, skill_id) = (state.skill.fingerprint.as_str(), state.skill.id.as_str());
                    let whole = |copy: &std::path::Path| is_whole(copy, fingerprint);
                    let wanted = shared_skills::Wanted { fingerprint, skill_id, whole: &whole };
                    owned.shared_skills.make(&wanted, |copy| unpack_skill(archive.path(), copy))
                };
                // What is not the skill of the run is not taken; the turn says so when it looks for it.
                self.blocking.run("restore the skill", make).await??;
            }
        }
        Ok(held)
    }

    /// Shares the files of a run that comes to rest; what the append is to carry.
    pub(crate) async fn files_at_rest(
        self: &Arc<Self>,
        state: &RunState,
        leave_out: Option<&'static str>,
    ) -> Result<Along, Error> {
        if self.blobs.is_none() {
            return Ok(Along::default());
        }
        let (owned, asked) = (self.clone(), state.clone());
        let skill = self.blocking.run("look for the skill", move || owned.shared_skill_shown(&asked)).await??;
        self.files().at_rest(state, skill.map(|skill| skill.files), leave_out).await
    }

    /// Shares what a turn left: the last files of a run that it ends, or all of one that goes on.
    pub(crate) async fn files_after(
        self: &Arc<Self>,
        state: &RunState,
        last_files: Option<&LastFiles>,
    ) -> Result<Along, Error> {
        match last_files {
            Some(last_files) => self.files().at_end(state.run_id, &last_files.evidence).await,
            None => self.files_at_rest(state, None).await,
        }
    }
}
