//! The end of a turn on disk: what the engine left is read, judged, indexed and kept.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::attempt::{Stop, warned, warnings};
use super::close::{self, Closing, RESULT_PATH, write_files};
use super::create::pretty;
use super::error::Error;
use super::turn_reader::TurnReader;
use super::verdict::{CliRemains, Outcome, ScriptRemains, Verdict, judge_cli, judge_script};
use crate::artifact;
use crate::domain::command::TurnEnd;
use crate::domain::event::Event;
use crate::domain::fact::Fact;
use crate::domain::outcome::{Evidence, RunError, StreamProof, Warning, code};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::engine::script;
use crate::skill::Skill;
use crate::supervisor::{Ended, StreamTotals};
use crate::workspace::{self, RunPaths};

/// How much of standard error is read for an error message.
const STDERR_TAIL: u64 = 8 * 1024;

/// A turn whose last process is gone.
pub(super) struct Turned {
    pub ended: Ended,
    pub stop: Option<Stop>,
    pub reader: TurnReader,
    pub dismissed: bool,
}

/// What is to be logged of it.
pub(super) struct Conclusion {
    pub facts: Vec<Fact>,
    pub end: TurnEnd,
    pub evidence: Evidence,
}

/// Judge the turn and write the last files. Blocks.
pub(super) fn conclude(paths: &RunPaths, state: &RunState, skill: &Skill, turned: Turned) -> Result<Conclusion, Error> {
    let ended = turned.ended.clone();
    let dismissed = turned.dismissed;
    let verdict = judge(paths, state, skill, turned)?;
    if let Some(answer) = &verdict.answer {
        workspace::write_whole(&paths.raw_engine_output_json(), &pretty(answer))?;
    }
    let Verdict { outcome, normalized, warnings: found, .. } = verdict;
    let mut noted = warnings(&ended);
    if dismissed {
        let message = "the engine had finished its turn but did not exit in time, so it was ended";
        noted.push(Warning::new("ENGINE_DID_NOT_EXIT", message));
    }
    noted.extend(found);
    let outcome = match outcome {
        Ok(Outcome::Ask(interaction)) if !state.cancel_requested => {
            let facts = noted.iter().map(warned).collect();
            // The run goes on: its last files are written when it ends.
            let evidence = Evidence { streams: BTreeMap::new(), artifacts_sha256: String::new() };
            return Ok(Conclusion { facts, end: TurnEnd::NeedsInput(interaction), evidence });
        }
        Ok(Outcome::Ask(_)) => Err(close::canceled()),
        Ok(Outcome::Done(completion, data)) => Ok((completion, data)),
        Err(error) => Err(error),
    };
    let indexed = artifact::index(&paths.root, &skill.artifact_contract())?;
    noted.extend(indexed.refused.iter().map(refused_artifact));
    let outcome = outcome.and_then(|done| match missing(&indexed) {
        None => Ok(done),
        Some(error) => Err(error),
    });
    let mut facts: Vec<Fact> = noted.iter().map(warned).collect();
    facts.extend(normalized.clone().map(|normalized| Fact::own(Event::Normalized(normalized))));
    facts.extend(indexed.entries.iter().map(|entry| Fact::own(Event::ArtifactIndexed(entry.clone()))));
    let (status, data, error, end) = match outcome {
        // A cancel that was accepted stands, whatever the engine managed to finish meanwhile.
        _ if state.cancel_requested => {
            (Status::Canceled, None, Some(close::canceled()), TurnEnd::Failed(close::canceled()))
        }
        Ok((completion, data)) => {
            let end = TurnEnd::Succeeded { completion, result_path: RESULT_PATH.to_owned() };
            (Status::Succeeded, Some(data), None, end)
        }
        Err(error) => (Status::Failed, None, Some(error.clone()), TurnEnd::Failed(error)),
    };
    let streams =
        BTreeMap::from([("stdout".to_owned(), proof(&ended.stdout)), ("stderr".to_owned(), proof(&ended.stderr))]);
    let artifacts = indexed.entries;
    let closing = Closing { state, status, data, error, artifacts, warnings: noted, normalized, streams };
    let evidence = write_files(paths, closing)?;
    Ok(Conclusion { facts, end, evidence })
}

fn judge(paths: &RunPaths, state: &RunState, skill: &Skill, turned: Turned) -> Result<Verdict, Error> {
    let Turned { ended, stop, reader, dismissed } = turned;
    let result_file = skill.manifest.entrypoint.prompt.result_file.as_deref();
    let skill_result = keep_skill_result(paths, result_file)?;
    match reader {
        TurnReader::Script(_) => {
            let stdout = read_output(&paths.stdout())?;
            workspace::write_whole(&paths.raw_engine_output(), &stdout)?;
            Ok(judge_script(&ScriptRemains {
                exit: ended.exit,
                stop,
                stdout: &text_of(stdout),
                stderr_tail: &read_tail(&paths.stderr())?,
                skill_result: skill_result.as_deref(),
                output: skill.output_validator(),
            }))
        }
        TurnReader::Cli(parser, adapter) => {
            let said = parser.report().final_text.clone().unwrap_or_default();
            workspace::write_whole(&paths.raw_engine_output(), said.as_bytes())?;
            Ok(judge_cli(&CliRemains {
                adapter,
                report: parser.report(),
                exit: ended.exit,
                dismissed,
                stop,
                skill_result: skill_result.as_deref(),
                output: skill.output_validator(),
                mode: state.options.execution_mode,
                attempt: state.attempt,
                max_attempt: skill.manifest.max_attempt,
            }))
        }
    }
}

fn proof(totals: &StreamTotals) -> StreamProof {
    StreamProof { bytes: totals.bytes, sha256: totals.sha256.clone() }
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned())
}

/// A script's answer, at most as long as it may be.
fn read_output(log: &Path) -> Result<Vec<u8>, Error> {
    let doing = || format!("read {}", log.display());
    let file = open_log(log)?;
    let mut bytes = Vec::new();
    file.take(script::STDOUT_MAX).read_to_end(&mut bytes).map_err(Error::io(doing()))?;
    Ok(bytes)
}

fn read_tail(log: &Path) -> Result<String, Error> {
    let doing = || format!("read {}", log.display());
    let mut file = open_log(log)?;
    let length = file.metadata().map_err(Error::io(doing()))?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL))).map_err(Error::io(doing()))?;
    let mut bytes = Vec::new();
    file.take(STDERR_TAIL).read_to_end(&mut bytes).map_err(Error::io(doing()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn open_log(log: &Path) -> Result<fs::File, Error> {
    fs::File::open(log).map_err(Error::io(format!("read {}", log.display())))
}

/// A result file the skill wrote is kept as it was: the final result takes its place.
fn keep_skill_result(paths: &RunPaths, named: Option<&str>) -> Result<Option<String>, Error> {
    let written = Path::new(named.unwrap_or(RESULT_PATH));
    // The path is the skill's, and so are the folders on the way: nothing outside the run is ever read.
    let Ok(file) = workspace::open_beneath(&paths.root, written) else { return Ok(None) };
    let mut bytes = Vec::new();
    let doing = || format!("read {}", written.display());
    file.take(script::STDOUT_MAX + 1).read_to_end(&mut bytes).map_err(Error::io(doing()))?;
    if bytes.len() as u64 > script::STDOUT_MAX {
        return Ok(None);
    }
    workspace::write_whole(&paths.raw_skill_result(), &bytes)?;
    Ok(Some(text_of(bytes)))
}

fn missing(indexed: &artifact::Indexed) -> Option<RunError> {
    if indexed.missing.is_empty() {
        return None;
    }
    let named = |pattern: &str| format!("artifacts/{}", pattern.trim_start_matches("artifacts/"));
    let patterns: Vec<String> = indexed.missing.iter().map(|entry| named(&entry.pattern)).collect();
    let message = format!("required artifacts are missing: {}", patterns.join(", "));
    Some(RunError::new(code::ARTIFACT_MISSING, message).with("missing", patterns))
}

fn refused_artifact(refused: &artifact::Refused) -> Warning {
    let message = format!("{} is not an artifact: {}", refused.path_rel, refused.reason);
    let mut warning = Warning::new("ARTIFACT_REFUSED", message);
    warning.details.insert("path".into(), refused.path_rel.clone().into());
    warning
}
