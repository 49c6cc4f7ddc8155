//! Files for a run that waits for them: staged, logged, promoted, and the run is queued.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use serde::Serialize;
use tracing::warn;

use super::create::key_of;
use super::error::Error;
use super::flights::Follower;
use super::handle::{Orchestrator, Shared};
use super::journal::lost_race;
use super::queue::Place;
use super::surroundings::Work;
use crate::domain::causes::chain;
use crate::domain::command::{Command, Refusal};
use crate::domain::ids::{RequestId, RunId};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::workspace::{self, UploadLimits};

/// Answer to an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Uploaded {
    /// The client's name for the run.
    pub request_id: RequestId,
    /// Whether an equal run's result was taken.
    pub cache_hit: bool,
    /// Where the run is.
    pub status: Status,
    /// The files taken.
    pub extracted_files: Vec<String>,
}

impl Orchestrator {
    /// Take the files of a run that waits for them; `zip` is a file on disk. The run is queued.
    pub async fn upload(&self, run: RunId, zip: PathBuf) -> Result<Uploaded, Error> {
        let shared = &self.shared;
        shared.admits()?;
        let _alone = Uploading::begin(shared.clone(), run)?;
        let mut journal = shared.journal(run)?;
        let state = journal.state().clone();
        if state.status.is_final() {
            return Err(Refusal::RunFinal { status: state.status }.into());
        }
        if !state.awaiting_upload {
            return Err(Refusal::AlreadyUploaded.into());
        }
        let place = shared.place()?;
        let skill = shared.skill_of(&state)?;
        let fields: Vec<String> = skill.file_fields().into_iter().map(|field| field.name).collect();
        let staging = shared.layout.request_uploads(state.request_id);
        let limits = self.upload_limits();
        let folder = staging.clone();
        let manifest = Work::run(&shared.work, move || workspace::stage_uploads(&zip, &folder, &fields, &limits))
            .await
            .map_err(|error| Error::io("unpack the upload")(error.into()))??;
        let manifest_sha256 = manifest.sha256();
        let started = shared.started(run)?;
        let (key, _) = key_of(&started, &manifest_sha256, None);
        let files = manifest.files.clone();
        let command = Command::Upload { files, manifest_sha256, cache_key: key, package: None };
        // Nobody ends the run from here until it has its part: it is in the queue, follows, or has its result.
        let _claim = shared.claimed(run).await;
        if let Err(error) = journal.commit(command).await {
            // Only a cancel can have come in between; the files are of no use then.
            let _ = workspace::remove_tree(&shared.layout.request(state.request_id));
            return Err(if lost_race(&error) { self.refused_upload(run)? } else { error });
        }
        let uploads = shared.layout.run(run).uploads();
        workspace::promote_uploads(&staging, &uploads)?;
        let cache_hit = self.line_up(journal.state(), place).await?;
        Ok(Uploaded {
            request_id: state.request_id,
            cache_hit,
            status: if cache_hit { Status::Succeeded } else { Status::Queued },
            extracted_files: manifest.files.into_iter().map(|file| file.name).collect(),
        })
    }

    /// A run that has all it needs takes its part: an equal run's result, a wait for it, or a place in the queue.
    /// Whether it has its result.
    async fn line_up(&self, state: &RunState, place: Place) -> Result<bool, Error> {
        let (shared, run) = (&self.shared, state.run_id);
        if let Some(key) = state.shared_key() {
            let Some(lead) = shared.lead(key, run) else {
                shared.follow(key, Follower { run, place: Some(place) });
                return Ok(false);
            };
            // It exists, so its end ends its lead, however it comes about.
            lead.keep();
            match shared.finish_from_cache(state).await {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => warn!(run.id = %run, error = %chain(&error), "a cached result could not be logged"),
            }
        }
        place.enter(run);
        shared.start_next();
        Ok(false)
    }

    fn refused_upload(&self, run: RunId) -> Result<Error, Error> {
        let status = self.state(run)?.status;
        Ok(Refusal::RunFinal { status }.into())
    }

    pub(super) fn upload_limits(&self) -> UploadLimits {
        let settings = &self.shared.settings;
        UploadLimits {
            max_upload_bytes: settings.limits.max_upload_bytes,
            max_unpacked_bytes: settings.limits.max_unpacked_bytes,
            max_entries: settings.limits.max_entries,
            ..UploadLimits::default()
        }
    }
}

/// One upload of a run at a time: two would stage into the same folder.
struct Uploading {
    shared: Arc<Shared>,
    run: RunId,
}

impl Uploading {
    fn begin(shared: Arc<Shared>, run: RunId) -> Result<Self, Error> {
        let fresh = shared.uploading.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
        if fresh { Ok(Self { shared, run }) } else { Err(Refusal::AlreadyUploaded.into()) }
    }
}

impl Drop for Uploading {
    fn drop(&mut self) {
        self.shared.uploading.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run);
    }
}
