//! What was asked for, as files for people who open the run's folder.

use serde_json::json;

use crate::domain::event::Started;
use crate::domain::proven_file::ProvenFile;
use crate::domain::run_file::RunFile;
use crate::files;
use crate::orchestrator::results::pretty;
use crate::workspace::RunPaths;

/// Write them. Blocks.
pub(crate) fn write_request(paths: &RunPaths, started: &Started) -> Result<(), files::Error> {
    contents(started).into_iter().try_for_each(|(file, bytes)| files::write_whole(&paths.file(file), &bytes))
}

/// The same files for a run that has no folder.
pub(crate) fn proven_request(started: &Started) -> impl Iterator<Item = ProvenFile> + use<> {
    contents(started).into_iter().map(|(file, bytes)| ProvenFile::of(file.name(), &bytes))
}

fn contents(started: &Started) -> [(RunFile, Vec<u8>); 2] {
    let input = pretty(&json!({
        "skill_id": started.skill.id,
        "engine": started.engine,
        "model": started.model,
        "input": started.input,
        "parameter": started.parameter,
        "runtime_options": started.runtime_options,
    }));
    let skill = pretty(&json!({
        "id": started.skill.id,
        "version": started.skill.version,
        "fingerprint": started.skill.fingerprint,
        "engine": started.engine,
    }));
    [(RunFile::Input, input), (RunFile::Skill, skill)]
}
