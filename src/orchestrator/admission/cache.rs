//! The cache: an index row from a key to the run that has the result, and the files of that run given to another.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::artifact::{self, Manifest};
use crate::bounded;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::cache_key::sha256_bytes;
use crate::domain::causes::chain;
use crate::domain::command::{Command, LastFiles};
use crate::domain::event::{Event, NormalizationLevel, Started};
use crate::domain::fact::Fact;
use crate::domain::ids::{RequestId, RunId};
use crate::domain::outcome::{Evidence, Warning};
use crate::domain::proven_file::ProvenFile;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::files::{self, Marks};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::Step;
use crate::orchestrator::results::{evidence, no_streams, prove};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::result_text::ResultText;
use crate::orchestrator::shared::shared_results::SharedResult;
use crate::store::{IndexChange, IndexKey};
use crate::workspace;
use crate::workspace::{Layout, RunPaths};

/// Longest file of the runner's own that is read whole: result and lists.
const FILE_MAX: u64 = 64 << 20;

/// What a cache row says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The run with the result.
    pub run_id: RunId,
    /// The hash of its artifacts, as in its proof.
    pub artifacts_sha256: String,
    /// Its other files that are shared, by path, with their hashes.
    pub files: BTreeMap<String, String>,
}

/// The row of a key.
pub(crate) fn row(key: &str) -> Option<IndexKey> {
    sha256_bytes(key).map(IndexKey::Cache)
}

/// The entry in the bytes of a row; none for one that cannot be read, which is as good as none.
pub(crate) fn parse(row: &[u8]) -> Option<Entry> {
    bounded::json::from_slice(row).ok()
}

/// The row to be written with the end of a run that succeeded, if its result may stand for an equal run's.
pub(crate) fn entry(
    state: &RunState,
    command: &Command,
    last_files: &LastFiles,
    results: &[ProvenFile],
) -> Option<IndexChange> {
    let Command::EndTurn { facts, .. } = command else { return None };
    // A repaired result may have drifted from what the engine found, so it is not shared.
    let repaired = |fact: &Fact| matches!(&fact.event, Event::Normalized(it) if it.level == NormalizationLevel::N3);
    let key = row(state.shared_key()?).filter(|_| !facts.iter().any(repaired))?;
    let files = results.iter().map(|file| (file.path.clone(), file.sha256.clone())).collect();
    let entry = Entry { run_id: state.run_id, artifacts_sha256: last_files.evidence.artifacts_sha256.clone(), files };
    Some(IndexChange::Put(key, Bytes::from(serde_json::to_vec(&entry).ok()?)))
}

fn read(root: &Path, file: &Path) -> Option<Vec<u8>> {
    files::read_beneath(root, file, FILE_MAX).ok().flatten()
}

/// A run that may take an equal run's result.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub run: RunId,
    pub request: RequestId,
    pub key: String,
}

impl Wanted {
    /// A queued run, if an equal run's result may stand for its own.
    pub(crate) fn of(state: &RunState) -> Option<Self> {
        let key = state.shared_key()?.to_owned();
        Some(Self { run: state.run_id, request: state.request_id, key })
    }
}

/// The entry of a key whose run is there.
pub(crate) async fn find(shared: &Shared, key: &str) -> Result<Option<Entry>, Error> {
    let Some(row) = row(key) else { return Ok(None) };
    let Some(entry) = shared.store.index(&row).await?.and_then(|row| parse(&row)) else { return Ok(None) };
    let source = match shared.log.head(entry.run_id).await {
        Ok(head) => head.state,
        Err(Error::RunNotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok((source.status() == Status::Succeeded).then_some(entry))
}

/// The row of the entry that names this very run.
pub(crate) async fn own_entry(shared: &Shared, state: &RunState) -> Result<Option<IndexKey>, Error> {
    let Some(row) = state.shared_key().and_then(row) else { return Ok(None) };
    let entry = shared.store.index(&row).await?.and_then(|bytes| parse(&bytes));
    Ok(entry.filter(|entry| entry.run_id == state.run_id).map(|_| row))
}

/// Put an equal run's files into this run's folder; the step that logs it. `None` is a miss: something of that run is
/// gone or has changed.
pub(crate) async fn take(shared: &Arc<Shared>, wanted: &Wanted, entry: Entry) -> Option<Step> {
    let (run, source) = (wanted.run, entry.run_id);
    if let Err(error) = shared.files().fetch_finished(source).await {
        warn!(run.id = %run, source.id = %source, error = %chain(&error), "a cached result cannot be fetched");
        return None;
    }
    let (from, to) = (shared.layout.run(source), shared.layout.run(run));
    let wanted = wanted.clone();
    let took = shared.blocking.run("take a cached result", move || match copy_result(&from, &to, &entry, &wanted) {
        Ok(last_files) => {
            Ok(Step { command: Command::TakeFromCache { source, cache_key: wanted.key }, last_files: Some(last_files) })
        }
        Err(reason) => {
            remove_result(&to);
            Err(reason)
        }
    });
    match took.await {
        Ok(Ok(step)) => Some(step),
        Ok(Err(reason)) => {
            warn!(run.id = %run, source.id = %source, reason, "a cached result cannot be used");
            None
        }
        Err(error) => {
            warn!(run.id = %run, error = %chain(&error), "a cached result could not be taken");
            None
        }
    }
}

/// The step that logs an equal run's result, for a run that is not created yet and gets no folder: the result is in a folder of
/// links, which outlives the equal run. `None` is a miss.
pub(crate) async fn take_shared(
    shared: &Arc<Shared>,
    wanted: &Wanted,
    entry: Entry,
    started: &Started,
) -> Option<Step> {
    let (run, source) = (wanted.run, entry.run_id);
    let owned = shared.clone();
    let folder = shared.layout.shared_result(source);
    // Usually a few looks at metadata: they take less time than the way to another thread.
    let result = match shared.shared_results.unchanged(source, &folder) {
        Some(result) => Ok(result),
        None => shared
            .blocking
            .run("share a result", move || share(&owned, &entry, &folder))
            .await
            .unwrap_or_else(|error| Err(chain(&error))),
    };
    match result {
        Ok(result) => {
            let command = Command::TakeFromCache { source, cache_key: wanted.key.clone() };
            // All of it is known: nothing is read.
            let evidence = evidence(no_streams(), &result.artifacts, &result.files_of(started));
            let last_files = last_files(result.result.warnings(), &result.artifacts, evidence);
            shared.shared_results.note_taker(run);
            Some(Step { command, last_files: Some(last_files) })
        }
        Err(reason) => {
            warn!(run.id = %run, source.id = %source, reason, "a cached result cannot be used");
            None
        }
    }
}

/// The shared result of a run, made if it is not there yet; durable when done. An error is why it cannot be used. Blocks.
fn share(shared: &Shared, entry: &Entry, folder: &Path) -> Result<Arc<SharedResult>, String> {
    let _working = shared.shared_results.working.lock().unwrap_or_else(PoisonError::into_inner);
    if folder.symlink_metadata().is_err() {
        make_shared(&shared.layout, entry, folder)?;
    }
    shared.shared_results.look(entry.run_id, folder, |folder| {
        let (artifacts, result, validation) = check(folder, entry)?;
        Ok(SharedResult { artifacts, result: result.hashed(), validation })
    })
}

fn make_shared(layout: &Layout, entry: &Entry, folder: &Path) -> Result<(), String> {
    let from = layout.run(entry.run_id).root;
    let (artifacts, ..) = check(&from, entry)?;
    let all = layout.shared_results();
    let make = || {
        files::create_folder(&all)?;
        let making = tempfile::Builder::new()
            .prefix(".making-")
            .tempdir_in(&all)
            .map_err(files::Error::on("create a folder in", &all))?;
        for file in shared_files(&artifacts, entry.files.keys()) {
            workspace::share_file(&from, Path::new(&file), making.path())?;
        }
        files::sync_file_system(&all)?;
        files::rename(making.path(), folder)?;
        // Nothing is left to be removed at its old path.
        let _ = making.keep();
        files::sync(&all)
    };
    make().map_err(|error| chain(&error))
}

/// The result's file of a run that shares it, as that run would have it in its folder.
pub(crate) fn shared_result_for(folder: &Path, request: RequestId) -> Result<Vec<u8>, String> {
    Ok(ResultText::read(result_in(folder)?)?.of(request, &manifest(folder)?.artifacts))
}

/// Links the shared result of a run into the folder of one that took it.
pub(crate) fn link_result(from: &Path, to: &RunPaths, request: RequestId) -> Result<Vec<ArtifactEntry>, String> {
    let artifacts = manifest(from)?.artifacts;
    let found = Marks::of(from).map_err(|error| error.to_string())?;
    for file in found.files() {
        workspace::share_file(from, file, &to.root).map_err(|error| chain(&error))?;
    }
    write_own_result(to, &ResultText::read(result_in(from)?)?, request, &artifacts)?;
    Ok(artifacts)
}

/// Check the source and share its files; durable when done. An error is why the source cannot be used.
fn copy_result(from: &RunPaths, to: &RunPaths, entry: &Entry, wanted: &Wanted) -> Result<LastFiles, String> {
    let (artifacts, result, _) = check(&from.root, entry)?;
    workspace::reclaim(to).map_err(|error| error.to_string())?;
    for file in shared_files(&artifacts, entry.files.keys()) {
        workspace::share_file(&from.root, Path::new(&file), &to.root).map_err(|error| error.to_string())?;
    }
    write_own_result(to, &result, wanted.request, &artifacts)?;
    let evidence = prove(to, no_streams(), artifacts.clone(), &[]).map_err(|error| chain(&error))?;
    workspace::sync_run(to).map_err(|error| error.to_string())?;
    Ok(last_files(&result.warnings, &artifacts, evidence))
}

fn last_files(warnings: &[Warning], artifacts: &[ArtifactEntry], evidence: Evidence) -> LastFiles {
    let warned = warnings.iter().map(|warning| Fact::own(Event::Warned(Box::new(warning.clone()))));
    let indexed = artifacts.iter().map(|artifact| Fact::own(Event::ArtifactIndexed(Box::new(artifact.clone()))));
    LastFiles { facts: warned.chain(indexed).collect(), evidence }
}

/// The files of a source that are shared, by their paths.
fn shared_files<'a>(
    artifacts: &'a [ArtifactEntry],
    others: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = String> {
    let names = artifacts.iter().map(|artifact| &artifact.path_rel).chain(others).cloned();
    names.chain([RunFile::Manifest.name().to_owned()])
}

/// The result names its run where it lists artifacts: that run gets its own.
fn write_own_result(
    to: &RunPaths,
    result: &ResultText,
    request: RequestId,
    artifacts: &[ArtifactEntry],
) -> Result<(), String> {
    if artifacts.is_empty() {
        return Ok(());
    }
    // Written whole, so the source's file, which has the same bytes on the disk so far, stays as it is.
    files::write_whole(&to.file(RunFile::Result), &result.of(request, artifacts)).map_err(|error| chain(&error))
}

/// The artifacts, the result and its validation in a source's folder, if it holds exactly what its entry is about.
fn check(root: &Path, entry: &Entry) -> Result<(Vec<ArtifactEntry>, ResultText, Option<ProvenFile>), String> {
    let artifacts = proven_artifacts(root, entry)?;
    let (mut result, mut validation) = (None, None);
    for (file, sha256) in &entry.files {
        let bytes = read(root, Path::new(file)).ok_or_else(|| format!("{file} is gone"))?;
        let found = ProvenFile::of(file.clone(), &bytes);
        if found.sha256 != *sha256 {
            return Err(format!("{file} has changed"));
        }
        if file == RunFile::Result.name() {
            result = Some(ResultText::read(bytes).map_err(|error| format!("its result: {error}"))?);
        } else {
            validation = Some(found);
        }
    }
    Ok((artifacts, result.ok_or("its result is gone")?, validation))
}

fn result_in(root: &Path) -> Result<Vec<u8>, String> {
    read(root, Path::new(RunFile::Result.name())).ok_or_else(|| "it is gone".to_owned())
}

/// The manifest in a folder.
fn manifest(root: &Path) -> Result<Manifest, String> {
    let bytes = read(root, Path::new(RunFile::Manifest.name())).ok_or("its manifest is gone")?;
    Manifest::read(&bytes).map_err(|error| format!("its manifest: {error}"))
}

/// The source's artifacts, if its folder holds exactly those that its proof is about.
fn proven_artifacts(root: &Path, entry: &Entry) -> Result<Vec<ArtifactEntry>, String> {
    let artifacts = manifest(root)?.artifacts;
    if artifact::artifacts_sha256(&artifacts) != entry.artifacts_sha256 {
        return Err("its manifest has changed".into());
    }
    let found = artifact::index(root, &[]).map_err(|error| error.to_string())?.entries;
    let content = |artifact: &ArtifactEntry| (artifact.path_rel.clone(), artifact.size, artifact.sha256.clone());
    let mut listed: Vec<_> = artifacts.iter().map(content).collect();
    listed.sort();
    let mut found: Vec<_> = found.iter().map(content).collect();
    found.sort();
    if listed != found {
        return Err("its artifacts are not what they were".into());
    }
    Ok(artifacts)
}

/// Removes what a failed attempt put into the run's folder: the run makes its own.
fn remove_result(to: &RunPaths) {
    let folders = [RunFolder::Artifacts, RunFolder::Result, RunFolder::Bundles].map(|folder| to.folder(folder));
    for place in folders.into_iter().chain([to.file(RunFile::Manifest)]) {
        // What stays is moved aside or replaced when the run ends.
        let _ = files::remove_tree(&place);
    }
}
