//! The last files of a run that ends without (another) turn of its engine.

use std::sync::Arc;

use serde_json::Map;

use crate::artifact;
use crate::domain::Ending;
use crate::domain::command::LastFiles;
use crate::domain::event::Event;
use crate::domain::fact::Fact;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::coverage::Coverage;
use crate::orchestrator::results::{FinalFiles, stream_proofs, write_files};
use crate::orchestrator::shared::Shared;
use crate::workspace::{self, RunPaths};

/// Write them; durable when done.
pub(crate) async fn without_engine(
    shared: &Arc<Shared>,
    state: &RunState,
    ending: &Ending,
) -> Result<LastFiles, Error> {
    // Queued again after an answer: the bytes of earlier turns stay, those of a start that was never logged go.
    let covered = match state.status() {
        Status::Queued if state.turns > 0 => Some(Coverage::of(&shared.log, state.run_id).await?),
        Status::Queued
        | Status::Running
        | Status::WaitingUser
        | Status::Succeeded
        | Status::Failed
        | Status::Canceled => None,
    };
    let (owned, state, ending) = (shared.clone(), state.clone(), ending.clone());
    let write = move || write_blocking(&owned, &state, &ending, covered);
    shared.blocking.run("write the run's last files", write).await?
}

fn write_blocking(
    shared: &Shared,
    state: &RunState,
    ending: &Ending,
    covered: Option<Coverage>,
) -> Result<LastFiles, Error> {
    let paths = shared.layout.run(state.run_id);
    forget_unlogged_start(&paths, state)?;
    if let Some(covered) = covered {
        covered.cut_files(&paths)?;
    }
    workspace::reclaim(&paths)?;
    let streams = stream_proofs(&paths)?;
    // A skill that cannot be read any more has no contract; its files are there all the same.
    let skill = if state.turns > 0 { shared.skill_of(state).ok() } else { None };
    let contract = skill.map(|skill| skill.artifact_contract()).unwrap_or_default();
    let artifacts = artifact::index(&paths.root, &contract)?.entries;
    let facts = artifacts.iter().map(|entry| Fact::own(Event::ArtifactIndexed(Box::new(entry.clone())))).collect();
    let files = FinalFiles {
        state,
        ending,
        data: None,
        remarks: Map::new(),
        artifacts,
        warnings: Vec::new(),
        normalized: None,
        streams,
    };
    Ok(LastFiles { facts, evidence: write_files(&paths, files)?.evidence })
}

/// A service that died between the start of an engine and its event left bytes that no event will ever name. One that died before
/// it had logged that the run took an equal run's result left links to that run's files: the engine would write through them.
pub(crate) fn forget_unlogged_start(paths: &RunPaths, state: &RunState) -> Result<(), Error> {
    if state.turns > 0 {
        return Ok(());
    }
    let mut left = vec![RunFolder::Artifacts, RunFolder::Result];
    if paths.file(RunFile::Stdout).exists() {
        left.extend([RunFolder::Logs, RunFolder::Raw]);
    }
    for folder in left.into_iter().map(|folder| paths.folder(folder)).filter(|folder| folder.exists()) {
        files::remove_tree(&folder)?;
    }
    Ok(())
}
