//! Files for a run that waits for them: staged, logged, promoted, and the run is queued.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use serde::Serialize;

use super::error::Error;
use super::handle::{Orchestrator, Shared};
use super::journal::{Journal, lost_race};
use crate::domain::cache_key::{KeyParts, cache_key};
use crate::domain::command::{Command, Refusal};
use crate::domain::ids::{RequestId, RunId};
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
        let mut journal = Journal::open(shared.store.clone(), run)?;
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
        let manifest = tokio::task::spawn_blocking(move || workspace::stage_uploads(&zip, &folder, &fields, &limits))
            .await
            .map_err(|error| Error::io("unpack the upload")(error.into()))??;
        let manifest_sha256 = manifest.sha256();
        let started = shared.started(run)?;
        let key = cache_key(&KeyParts {
            skill: &state.skill,
            engine: &state.engine,
            model: state.model.as_deref(),
            options: &state.options,
            parameter: &started.parameter,
            input: &started.input,
            manifest_sha256: &manifest_sha256,
            package_sha256: None,
        });
        let files = manifest.files.clone();
        let command = Command::Upload { files, manifest_sha256, cache_key: key };
        if let Err(error) = journal.commit(command).await {
            // Only a cancel can have come in between; the files are of no use then.
            let _ = workspace::remove_tree(&shared.layout.request(state.request_id));
            return Err(if lost_race(&error) { self.refused_upload(run)? } else { error });
        }
        let uploads = shared.layout.run(run).uploads();
        workspace::promote_uploads(&staging, &uploads)?;
        place.enter(run);
        shared.start_next();
        Ok(Uploaded {
            request_id: state.request_id,
            cache_hit: false,
            status: Status::Queued,
            extracted_files: manifest.files.into_iter().map(|file| file.name).collect(),
        })
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
