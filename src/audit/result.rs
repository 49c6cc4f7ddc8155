//! Compares the result and its validation with the log.

use serde_json::{Value, json};

use crate::audit::files::RunFiles;
use crate::audit::log::Outcome;
use crate::audit::report::Report;
use crate::bounded;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::run_file::RunFile;
use crate::domain::statechart::Status;
use crate::export::Piece;

const RESULT: &str = RunFile::Result.name();
const VALIDATION: &str = RunFile::Validation.name();
/// Longest of these files that is read: an output has at most 10 MB.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Most values in one: an output has at most 1 000 000, and there are the artifacts.
const MAX_VALUES: usize = 2_000_000;

/// Checks both files against the log's outcome and the artifacts it names.
pub(crate) fn check(files: &RunFiles, outcome: &Outcome, artifacts: &[ArtifactEntry], report: &mut Report) {
    match files.open(RESULT).ok_or_else(|| "the file is missing".to_owned()).and_then(|file| read(&file)) {
        Ok(result) => held_against(&result, outcome, artifacts, report),
        Err(error) => report.violated("RESULT", RESULT, format!("it cannot be read: {error}")),
    }
    // It exists only if the output was validated.
    if let Some(file) = files.open(VALIDATION) {
        match read(&file) {
            Ok(validation) => validated(&validation, outcome, report),
            Err(error) => report.violated("RESULT", VALIDATION, format!("it cannot be read: {error}")),
        }
    }
}

fn read(file: &Piece) -> Result<Value, String> {
    let text = Some(file.size()).filter(|size| *size <= MAX_BYTES).and_then(|size| file.bytes(0, size));
    let text = text.filter(|text| bounded::json::has_at_most(text, MAX_VALUES));
    let text = text.ok_or("it is larger than a result can be")?;
    bounded::json::from_slice(&text).map_err(|error| error.to_string())
}

fn held_against(result: &Value, outcome: &Outcome, artifacts: &[ArtifactEntry], report: &mut Report) {
    let status = outcome.folded.as_ref().map(|head| head.state.status());
    if let Some(status) = status
        && result["status"].as_str() != Some(status.as_str())
    {
        let message = format!("its status is {}, the log's is {:?}", result["status"], status.as_str());
        report.violated("RESULT", RESULT, message);
    }
    if result["error"] != json!(outcome.error) {
        report.violated("RESULT", RESULT, "its error differs from the log's");
    }
    if status.is_some_and(|status| status != Status::Succeeded) && !result["data"].is_null() {
        report.violated("RESULT", RESULT, "it has data although the run did not succeed");
    }
    let named = |entry: &Value| {
        let size = entry["size"].as_u64()?;
        Some((entry["path_rel"].as_str()?.to_owned(), size, entry["sha256"].as_str()?.to_owned()))
    };
    let listed: Vec<_> = result["artifacts"].as_array().into_iter().flatten().map(named).collect();
    let expected = artifacts.iter().map(|entry| Some((entry.path_rel.clone(), entry.size, entry.sha256.clone())));
    if listed != expected.collect::<Vec<_>>() {
        report.violated("RESULT", RESULT, "its artifacts differ from those of the run");
    }
}

fn validated(validation: &Value, outcome: &Outcome, report: &mut Report) {
    // A result taken from an equal run was validated in that run's log.
    if outcome.folded.as_ref().is_some_and(|head| head.state.cache_hit) {
        return;
    }
    if outcome.normalized.is_none() && outcome.folded.as_ref().is_some_and(|head| head.state.cache_hit) {
        // It came with the result of an equal run and is compared with that run's log.
        return;
    }
    let logged = json!(outcome.normalized);
    for member in ["level", "valid", "source"] {
        if validation[member] != logged[member] {
            let message = format!("its {member} is {}, the log's is {}", validation[member], logged[member]);
            report.violated("RESULT", VALIDATION, message);
        }
    }
}
