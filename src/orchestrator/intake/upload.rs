//! Files for a run that waits for them: staged, logged, promoted, and the run is queued.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use serde::Serialize;
use tracing::warn;

use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::command::{Command, Refusal};
use crate::domain::ids::{RequestId, RunId};
use crate::domain::outcome::Warning;
use crate::domain::run_file::RunFolder;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::files;
use crate::orchestrator::admission::admit::Admission;
use crate::orchestrator::admission::cache::Wanted;
use crate::orchestrator::admission::effects::perform;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::intake::plan::{key_of, rejected};
use crate::orchestrator::intake::temp::Delivered;
use crate::orchestrator::intake::upload_warnings::{ignored_entries, unexpected_endings};
use crate::orchestrator::log::journal::{Step, lost_race, met_final, not_owner};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::queue::Place;
use crate::workspace::{self, KEPT_REQUEST, Manifest, Sent, SentPart, Staged, UploadError, UploadFields, UploadLimits};

/// The part of an upload that is a zip.
pub(crate) const ZIP_PART: &str = "file";
/// Longest list of the files of an upload, in bytes of JSON: it is one event.
const LIST_MAX: usize = 640 * 1024;
const PACKAGE_MISSING: &str =
    "this run's skill comes with its upload: send the part \"skill_package\" with the package's zip";
const PACKAGE_UNASKED: &str = "this run has its skill already: leave the part \"skill_package\" out";

/// Answer to an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Uploaded {
    /// The client's name for the run.
    pub request_id: RequestId,
    /// Whether an equal run's result was taken.
    pub cache_hit: bool,
    /// Where the run is.
    pub status: Status,
    pub extracted_files: Vec<String>,
}

/// What a client sends for a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The run's input files.
    pub files: Sent,
    /// The run's own skill, a zip on disk.
    pub package: Option<PathBuf>,
}

impl Delivery {
    /// A zip with input files and nothing else.
    pub fn zip(path: PathBuf) -> Self {
        Self { files: Sent { zip: Some(path), parts: Vec::new() }, package: None }
    }
}

/// Whether the list of the files fits into an event.
fn check_list(manifest: &Manifest) -> Result<(), Error> {
    let bytes = serde_json::to_string(&manifest.files).map_or(0, |text| text.len());
    if bytes <= LIST_MAX {
        return Ok(());
    }
    let message = format!(
        "the list of the {} files, with their names and hashes, has {bytes} bytes, more than {LIST_MAX}: send fewer files, \
         give them shorter names, or send them as an archive in one file",
        manifest.files.len()
    );
    Err(rejected(ErrorCode::PayloadTooLarge, message))
}

impl Orchestrator {
    /// Take the files of a run that waits for them, and its skill if that is its own. The run is queued.
    pub async fn upload(&self, run: RunId, delivery: Delivery) -> Result<Uploaded, Error> {
        let shared = &self.shared;
        shared.admits()?;
        let _alone = Uploading::begin(shared.clone(), run)?;
        let state = shared.log.head(run).await?.state;
        if state.status().is_final() {
            return Err(Refusal::RunFinal { status: state.status() }.into());
        }
        if !state.awaiting_upload {
            return Err(Refusal::AlreadyUploaded.into());
        }
        let place = shared.place(&state.labels, state.requested_by.as_deref())?;
        let held = shared.ensure_files(&state).await?;
        let delivered = match delivery.package {
            Some(zip) if state.temporary => Some(self.receive_package(&state, zip).await?),
            None if state.temporary => return Err(rejected(ErrorCode::InvalidRequest, PACKAGE_MISSING.into())),
            Some(_) => return Err(rejected(ErrorCode::InvalidRequest, PACKAGE_UNASKED.into())),
            None => None,
        };
        let (manifest, warnings) = self.stage(&state, delivery.files, delivered.as_ref()).await?;
        let manifest_sha256 = manifest.sha256();
        let (cache_key, _) = match &delivered {
            Some(Delivered { planned, package, .. }) => key_of(planned, &manifest_sha256, Some(&package.sha256)),
            None => key_of(&shared.log.first(run).await?, &manifest_sha256, None),
        };
        // Nobody ends the run from here until it is in the queue, follows an equal run, or has its result.
        let _lock = shared.run_locks.lock(run).await;
        let mut journal = shared.journal(run).await?;
        if journal.state().status().is_final() {
            let _ = files::remove_tree(&shared.layout.request(state.request_id));
            return Err(Refusal::RunFinal { status: journal.state().status() }.into());
        }
        if let Some(delivered) = &delivered {
            self.place_package(&state, delivered).await?;
        }
        let files = manifest.files.clone();
        let package = delivered.as_ref().map(|delivered| delivered.package.clone());
        // The request was kept for the package alone.
        let along = shared.files_at_rest(&state, Some(KEPT_REQUEST)).await?;
        let mark = along.mark.clone();
        let command = Command::Upload { files, manifest_sha256, cache_key, package, warnings };
        if let Err(error) = journal.commit_with(command, along).await {
            if lost_race(&error) || not_owner(&error) || met_final(&error).is_some() {
                // A cancel has come in between, or another service has its files, and perhaps works on it; these are of no use then.
                let _ = files::remove_tree(&shared.layout.request(state.request_id));
                return Err(self.refused_upload(run).await?);
            }
            let _ = files::remove_tree(&shared.layout.request_uploads(state.request_id));
            return Err(error);
        }
        shared.awaiting_files.release(run);
        let (layout, request) = (shared.layout.clone(), state.request_id);
        let move_files = move || {
            let _ = files::remove_file(&layout.kept_request(request));
            let uploads = layout.run(run).folder(RunFolder::Uploads);
            let moved = workspace::promote_uploads(&layout.request_uploads(request), &uploads);
            // Where it held nothing else.
            files::remove_empty(&layout.request(request));
            moved
        };
        let moved = shared.blocking.run("move the uploaded files", move_files).await;
        if let Err(error) = moved.and_then(|moved| Ok(moved?)) {
            // The upload is on record, so the run goes on: its turn moves them, or tells why it cannot begin.
            warn!(run.id = %run, error = %chain(&error), "the uploaded files were not moved to their run yet");
        }
        held.settled(shared.files(), mark).await;
        let cache_hit = self.admit(journal.state(), place).await;
        Ok(Uploaded {
            request_id: state.request_id,
            cache_hit,
            status: if cache_hit { Status::Succeeded } else { Status::Queued },
            extracted_files: manifest.files.into_iter().map(|file| file.name).collect(),
        })
    }

    /// Put the input files beside the run; they, and what is to be told about them.
    async fn stage(
        &self,
        state: &RunState,
        mut sent: Sent,
        delivered: Option<&Delivered>,
    ) -> Result<(Manifest, Vec<Warning>), Error> {
        let shared = &self.shared;
        if sent.zip.is_none() && sent.parts.is_empty() {
            let nothing =
                "the body has no file: send the part \"file\" with a zip, or parts named like the file inputs";
            let nothing = rejected(ErrorCode::InvalidRequest, nothing.into());
            return if state.temporary { Ok(Default::default()) } else { Err(nothing) };
        }
        let skill = match delivered {
            Some(delivered) => delivered.installed.skill.clone(),
            None => {
                let (owned, state) = (shared.clone(), state.clone());
                shared.blocking.run("look up a skill", move || owned.skill_of(&state)).await??
            }
        };
        let (named, rest) = (skill.file_fields(), skill.rest_field());
        let fields = UploadFields {
            named: named.iter().map(|field| field.name.clone()).collect(),
            rest: rest.as_ref().map(|field| field.name.clone()),
        };
        let staging = shared.layout.request_uploads(state.request_id);
        let limits = self.upload_limits();
        let turn = shared.unpacking.turn().await?;
        let staged = shared
            .blocking
            .run("unpack the upload", move || {
                take_file_part(&mut sent, &fields)?;
                workspace::stage_uploads(&sent, &staging, &fields, &limits)
                    .map_err(|error| with_advice(error, &sent, &fields))
            })
            .await;
        drop(turn);
        let Staged { manifest, ignored } = staged??;
        if let Err(error) = check_list(&manifest) {
            let _ = files::remove_tree(&shared.layout.request_uploads(state.request_id));
            // Where it held nothing else.
            files::remove_empty(&shared.layout.request(state.request_id));
            return Err(error);
        }
        let warnings = ignored_entries(&ignored).chain(unexpected_endings(&named, rest.as_ref(), &manifest)).collect();
        Ok((manifest, warnings))
    }

    /// A run that has all it needs gets an equal run's result, waits for it, or enters the queue. Whether it has its result.
    async fn admit(&self, state: &RunState, place: Place) -> bool {
        let (shared, run) = (&self.shared, state.run_id);
        let mut admission = Admission::begin(shared, Wanted::of(state)).await;
        if let Some(hit) = admission.take_result(shared).await {
            match self.log_hit(run, hit).await {
                Ok(()) => {
                    admission.stay();
                    return true;
                }
                Err(error) => warn!(run.id = %run, error = %chain(&error), "a cached result could not be logged"),
            }
        }
        admission.enter(shared, state, place);
        false
    }

    async fn log_hit(&self, run: RunId, hit: Step) -> Result<(), Error> {
        let mut journal = self.shared.journal(run).await?;
        let along = self.shared.files_after(journal.state(), hit.last_files.as_ref()).await?;
        let mark = along.mark.clone();
        journal.commit_with(hit, along).await?;
        self.shared.files().settled(run, mark).await;
        perform(&self.shared, journal.state());
        Ok(())
    }

    async fn refused_upload(&self, run: RunId) -> Result<Error, Error> {
        let status = self.state(run).await?.status();
        Ok(Refusal::RunFinal { status }.into())
    }

    pub(crate) fn upload_limits(&self) -> UploadLimits {
        let settings = &self.shared.settings;
        UploadLimits {
            max_upload_bytes: settings.limits.max_upload_bytes,
            max_unpacked_bytes: settings.limits.max_unpacked_bytes,
            max_entries: settings.limits.max_entries,
            min_free_bytes: settings.limits.min_free_bytes,
            ..UploadLimits::default()
        }
    }
}

/// A skill may have an input named like the part that brings a zip: what is no zip is then that input's file.
fn take_file_part(sent: &mut Sent, fields: &UploadFields) -> Result<(), UploadError> {
    let named = fields.named.iter().find(|field| *field == ZIP_PART);
    if let (Some(field), Some(path)) = (named, sent.zip.clone())
        && !workspace::begins_like_a_zip(&path)?
    {
        sent.zip = None;
        sent.parts.push(SentPart { field: field.clone(), file_name: None, path });
    }
    Ok(())
}

/// What is no zip at all was probably meant to be a file.
fn with_advice(error: UploadError, sent: &Sent, fields: &UploadFields) -> UploadError {
    match (error, &sent.zip) {
        (UploadError::InvalidZip { reason }, Some(zip)) if !workspace::begins_like_a_zip(zip).unwrap_or(true) => {
            let named = if fields.named.is_empty() { String::new() } else { format!(": {}", fields.named.join(", ")) };
            let advice = "a file that is not in a zip is sent in a part named like its input";
            UploadError::InvalidZip { reason: format!("{reason}; {advice}{named}") }
        }
        (error, _) => error,
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
