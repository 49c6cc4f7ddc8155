//! A run that asks for the same as an earlier one, with the files of that run and whatever is to be different.

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::bounded;
use crate::domain::codes::ErrorCode;
use crate::domain::command::Refusal;
use crate::domain::event::Started;
use crate::domain::ids::RunId;
use crate::domain::run_file::RunFolder;
use crate::domain::state::RunState;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::intake::create::Created;
use crate::orchestrator::intake::plan::{length, rejected};
use crate::orchestrator::intake::request::CreateRequest;
use crate::orchestrator::intake::upload::Delivery;
use crate::orchestrator::shared::request_room::PATIENCE;
use crate::workspace::{CopyError, Sent, copy_uploads};

/// A run that is to be made again.
pub(crate) struct Rerun {
    pub(crate) request: CreateRequest,
}

impl Orchestrator {
    /// What a run asked for, changed by a JSON merge patch on the body of its request. The engine runs again: the cache is
    /// not asked, unless the patch says so.
    pub(crate) async fn rerun_of(&self, run: RunId, patch: Map<String, Value>) -> Result<Rerun, Error> {
        // It waits with what the client sent, and takes many times that where the run has a large input.
        let held = self.shared.requests.hold(length(&patch))?;
        let _turn = self.shared.rerun_reads.turn().await?;
        drop(held);
        let log = &self.shared.log;
        let (state, started) = (log.head(run).await?.state, log.first(run).await?);
        if started.temporary {
            let message = "the run brought its own skill, which is not kept: create it again with its package";
            return Err(rejected(ErrorCode::InvalidRequest, message.into()));
        }
        let config = format!("{}_config", started.engine);
        if started.engine_config_sha256.is_some() && !patch.contains_key(&config) {
            let message =
                format!("the run was given a configuration for its engine, which is not kept: send {config} again");
            return Err(rejected(ErrorCode::InvalidRequest, message));
        }
        // Whoever says whether to wait for files brings his own.
        let has_files = started.awaiting_upload && !state.awaiting_upload && !patch.contains_key("await_upload");
        let changed = move || changed_request(started, patch);
        let mut request = self.shared.blocking.run("read what a run asked for", changed).await??;
        request.files_of = has_files.then_some(run);
        Ok(Rerun { request })
    }

    /// Create the run. One that needs files gets those of the earlier run.
    pub(crate) async fn rerun(&self, again: Rerun, idempotency_key: Option<&str>) -> Result<Created, Error> {
        let none = Map::new();
        let fields = [&again.request.input, &again.request.parameter];
        let bytes = fields.into_iter().map(|fields| length(fields.as_ref().unwrap_or(&none))).sum();
        let held = self.shared.requests.hold(bytes)?;
        // A repeat waits until the first of the same key has sent its files.
        let _alone = match (again.request.files_of, idempotency_key) {
            (Some(run), Some(_)) => {
                let lock = timeout(PATIENCE, self.shared.rerun_locks.lock(run)).await;
                Some(lock.map_err(|_| Error::FilesBusy)?)
            }
            _ => None,
        };
        // Until the new run has its files, there are copies of them.
        let (files, _turn) = match again.request.files_of {
            Some(run) => {
                let turn = self.shared.reruns.turn().await?;
                (Some(self.files_of(run).await?), Some(turn))
            }
            None => (None, None),
        };
        drop(held);
        let mut created = self.create(again.request, idempotency_key).await?;
        let Some((sent, _folder)) = files.filter(|_| created.awaiting_upload) else { return Ok(created) };
        // A key that was used before leads to a run that has its files already, unless the service ended meanwhile.
        if !created.is_new {
            let state = self.state(created.run_id).await?;
            if !state.awaiting_upload {
                return Ok(as_it_is(created, &state));
            }
        }
        let delivery = Delivery { files: sent, package: None };
        match self.upload(created.run_id, delivery).await {
            Ok(uploaded) => {
                created.awaiting_upload = false;
                created.cache_hit = uploaded.cache_hit;
                created.status = uploaded.status;
                Ok(created)
            }
            // A repeat was faster, through another service.
            Err(Error::Refused(Refusal::AlreadyUploaded)) => {
                let state = self.state(created.run_id).await?;
                Ok(as_it_is(created, &state))
            }
            Err(error) => {
                if created.is_new {
                    // Without its files it would wait for ever.
                    self.cancel(created.run_id, "service", "its files could not be taken from the earlier run").await?;
                }
                Err(error)
            }
        }
    }

    /// Copies of the files that a run was given, as they would be sent, and the folder they are in.
    async fn files_of(&self, run: RunId) -> Result<(Sent, TempDir), Error> {
        let log = &self.shared.log;
        let files = log.uploaded(run).await?.map(|uploaded| uploaded.files).unwrap_or_default();
        let uploads = log.folder(run).await?.folder(RunFolder::Uploads);
        // They are copied, and staged from the copies.
        self.shared
            .has_room_for(files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size)).saturating_mul(2))?;
        let beside = self.shared.layout.tmp();
        let copy = move || {
            files::create_folder(&beside).map_err(std::io::Error::from)?;
            let folder = tempfile::Builder::new().prefix("rerun-").tempdir_in(&beside)?;
            copy_uploads(&uploads, &files, folder.path()).map(|sent| (sent, folder))
        };
        let copied = self.shared.blocking.run("copy the files of a run", copy).await?;
        copied.map_err(|error| match error {
            CopyError::Gone { .. } => {
                rejected(ErrorCode::RunFilesGone, "the files of the run are no longer kept".into())
            }
            CopyError::Changed { name } => {
                log.damaged(run, &RunFolder::Uploads.join(&name), "it is not what was uploaded".to_owned())
            }
            CopyError::Io(error) => Error::io("copy the files of the run")(error),
        })
    }
}

/// The answer to a repeat: what became of the run meanwhile.
fn as_it_is(created: Created, state: &RunState) -> Created {
    Created { awaiting_upload: state.awaiting_upload, status: state.status(), ..created }
}

/// What a run asked for, changed by a merge patch.
fn changed_request(started: Started, patch: Map<String, Value>) -> Result<CreateRequest, Error> {
    let waited = started.awaiting_upload;
    let mut body = body_of(started)?;
    if !waited {
        // It did not wait for files then, and does not now.
        body["await_upload"] = json!(false);
    }
    merge(&mut body, Value::Object(patch));
    // Read as a text, like the body of a creation: a value that was read before keeps `3.0` from being a whole number.
    bounded::json::from_str(&body.to_string()).map_err(|error| {
        let told = error.to_string();
        let told = told.rsplit_once(" at line ").map_or(told.as_str(), |(told, _)| told);
        rejected(ErrorCode::InvalidRequest, format!("the request, changed as the body says, is not valid: {told}"))
    })
}

/// The body of the request that a run was made of.
fn body_of(started: Started) -> Result<Value, Error> {
    let mut options = serde_json::to_value(&started.runtime_options)
        .map_err(|error| Error::io("read the options of a run")(error.into()))?;
    options["no_cache"] = json!(true);
    Ok(json!({
        "skill_id": started.skill.id,
        "engine": started.engine,
        "model": started.model,
        "input": started.input,
        "parameter": started.parameter,
        "runtime_options": options,
        "await_upload": started.awaiting_upload,
        "labels": started.labels,
        "metadata": started.metadata,
        "context": started.context,
        "priority": Some(started.priority).filter(|priority| *priority != 0),
    }))
}

/// RFC 7386: objects are merged, null removes, everything else replaces.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(target) = target.as_object_mut() else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_replaces_adds_and_removes() {
        let mut body = json!({"input": {"a": 1, "b": [1, 2]}, "model": "m", "labels": {"team": "x"}});
        merge(&mut body, json!({"input": {"b": [3], "c": {"d": 1}}, "model": null, "labels": {"team": null}}));
        assert_eq!(body, json!({"input": {"a": 1, "b": [3], "c": {"d": 1}}, "labels": {}}));
    }
}
