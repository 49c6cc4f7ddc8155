//! The folder of a run that took an equal run's result: made of links when somebody first needs it.

use std::io::ErrorKind;

use serde_json::value::RawValue;

use crate::bounded;
use crate::domain::cache_key::sha256_hex;
use crate::domain::event::Started;
use crate::domain::ids::RunId;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::RunState;
use crate::files;
use crate::orchestrator::admission::cache;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::log::run_log::RunLog;
use crate::orchestrator::results::{no_streams, prove};
use crate::orchestrator::shared::request_files::write_request;
use crate::workspace::{self, Layout, RunPaths};

impl RunLog {
    /// The files of a run; if it is a hit without a folder so far, it gets one.
    pub async fn folder(&self, run: RunId) -> Result<RunPaths, Error> {
        self.fetch_files(run).await?;
        let paths = self.paths(run);
        if paths.root.symlink_metadata().is_ok() {
            return Ok(paths);
        }
        let state = self.head(run).await?.state;
        if let Some(source) = folderless(&state) {
            let (layout, started) = (self.layout().clone(), self.first(run).await?);
            self.blocking()
                .run("make a run's folder", move || make_hit_folder(&layout, run, &started, source))
                .await??;
        }
        Ok(paths)
    }

    /// The result of a final run, as text, so that no number in it changes. One that is not what it was is an error.
    pub async fn result(&self, state: &RunState) -> Result<Box<RawValue>, Error> {
        let run = state.run_id;
        self.fetch_files(run).await?;
        let source = folderless(state).filter(|_| self.paths(run).root.symlink_metadata().is_err());
        let Some(source) = source else {
            let proven = self.proven(run).await?.ok_or(Error::NotReady)?;
            let read =
                move || raw_value(&proven.result()?).map_err(|message| proven.damaged(RunFile::Result.name(), message));
            return self.blocking().run("read a result", read).await?;
        };
        let proof = self.proof(&self.head(run).await?).await?;
        let (log, folder, request) = (self.clone(), self.layout().shared_result(source), state.request_id);
        let read = move || {
            let name = log.name_in_data(&folder.join(RunFile::Result.name()));
            let damaged = |message: String| log.damaged(run, &name, message);
            let bytes = cache::shared_result_for(&folder, request).map_err(damaged)?;
            if proof.result_sha256.is_some_and(|expected| sha256_hex(&bytes) != expected) {
                return Err(log.damaged(run, &name, "it is not the result that the run took".to_owned()));
            }
            log.damage().clear(run, &name);
            raw_value(&bytes).map_err(|message| log.damaged(run, &name, message))
        };
        self.blocking().run("read a result", read).await?
    }
}

impl Orchestrator {
    /// The result of a final run, as text. That of a run which has just taken an equal run's result is not read again.
    pub(crate) async fn result(&self, state: &RunState) -> Result<Box<RawValue>, Error> {
        let (shared, run) = (&self.shared, state.run_id);
        if let Some(source) = folderless(state)
            && let folder = shared.layout.shared_result(source)
            && let Some(taken) = shared.shared_results.taken(run, state.request_id, source, &folder)
            && shared.layout.run(run).root.symlink_metadata().is_err()
            && let Ok(result) = raw_value(&taken)
        {
            return Ok(result);
        }
        shared.log.result(state).await
    }
}

/// The run whose result this one shares, where it need not have a folder of its own.
fn folderless(state: &RunState) -> Option<RunId> {
    state.cached_from.filter(|_| state.status().is_final())
}

fn unusable(source: RunId) -> impl FnOnce(String) -> Error {
    move |message| Error::Corrupt { run: source.to_string(), message: format!("its shared result: {message}") }
}

fn raw_value(bytes: &[u8]) -> Result<Box<RawValue>, String> {
    bounded::json::from_slice(bytes).map_err(|error| error.to_string())
}

/// Makes the folder of a hit whole, then puts it in its place. Blocks.
pub(crate) fn make_hit_folder(layout: &Layout, run: RunId, started: &Started, source: RunId) -> Result<(), Error> {
    let (place, runs) = (layout.run(run), layout.runs());
    files::create_folder(&runs)?;
    let making = tempfile::Builder::new()
        .prefix(".making-")
        .tempdir_in(&runs)
        .map_err(Error::io(format!("create a folder in {}", runs.display())))?;
    let new = RunPaths { root: making.path().to_owned(), ..place.clone() };
    write_request(&new, started)?;
    let artifacts =
        cache::link_result(&layout.shared_result(source), &new, started.request_id).map_err(unusable(source))?;
    prove(&new, no_streams(), artifacts, &[])?;
    if place.sealed.symlink_metadata().is_ok() {
        files::create_folder(&new.folder(RunFolder::Logs))?;
        workspace::link_or_copy(&place.sealed, &new.file(RunFile::Events))?;
    }
    workspace::sync_run(&new)?;
    files::step("rename to", &place.root)?;
    match std::fs::rename(&new.root, &place.root) {
        Ok(()) => {
            // Nothing is left to be removed at its old path.
            let _ = making.keep();
            Ok(())
        }
        // Somebody else was faster.
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => Ok(()),
        Err(error) => Err(Error::io(format!("rename to {}", place.root.display()))(error)),
    }
}
