//! The end of a turn on disk: what the engine left is read, judged, indexed and kept.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::artifact;
use crate::domain::command::TurnEnd;
use crate::domain::event::Event;
use crate::domain::fact::Fact;
use crate::domain::outcome::{Evidence, RunError, StreamProof, Warning, code};
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::engine::{Adapter, EngineExit, TurnParser, script};
use crate::files;
use crate::orchestrator::admission::cache;
use crate::orchestrator::error::Error;
use crate::orchestrator::intake::create::pretty;
use crate::orchestrator::turn::last_files;
use crate::orchestrator::turn::last_files::{Closing, write_files};
use crate::orchestrator::turn::process::StageEnd;
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::result_file;
use crate::orchestrator::turn::result_file::{FileMark, text_of};
use crate::orchestrator::turn::watch::warned;
use crate::skill::Skill;
use crate::store::IndexChange;
use crate::supervisor::{Ended, ProcessExit, StreamTotals};
use crate::verdict::cli::{CliRemains, judge_cli, judge_words};
use crate::verdict::script::{ScriptRemains, judge_script};
use crate::verdict::stop::Stop;
use crate::verdict::verdict::{Outcome, Unsettled, Verdict};
use crate::workspace;
use crate::workspace::RunPaths;

/// How much of standard error is read for an error message.
const STDERR_TAIL: u64 = 8 * 1024;

/// A turn whose last process is gone.
pub(crate) struct Turned {
    pub exit: ProcessExit,
    pub stop: Option<Stop>,
    pub reader: TurnReader,
    pub dismissed: bool,
    /// The result file as the turn found it.
    pub result_before: Option<FileMark>,
    /// Set for a script that stands behind an engine.
    pub behind_engine: Option<BehindEngine>,
}

/// Where a script's own output begins, behind its engine's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BehindEngine {
    pub stdout_from: u64,
}

/// A session that was asked again, and the result file as it was then.
pub(crate) struct Asked {
    pub end: StageEnd,
    pub before: Option<FileMark>,
}

/// A turn judged: over, or still open to the ladder.
pub(crate) enum Judged {
    Closed(Box<Conclusion>),
    Open {
        unsettled: Box<Unsettled>,
        /// Whether the engine left a result file.
        kept: bool,
    },
}

/// What is to be logged of it.
pub(crate) struct Conclusion {
    pub facts: Vec<Fact>,
    pub end: TurnEnd,
    pub evidence: Evidence,
    /// The row under which an equal run finds this one's result.
    pub cached: Option<IndexChange>,
}

/// Judge the turn; also whether it left a result file. Blocks.
pub(crate) fn judge(
    paths: &RunPaths,
    state: &RunState,
    skill: &Skill,
    turned: Turned,
) -> Result<(Verdict, bool), Error> {
    reclaim(paths)?;
    let named = skill.manifest.entrypoint.prompt.result_file.as_deref().filter(|_| turned.behind_engine.is_none());
    let skill_result = result_file::keep(paths, named, turned.result_before, &paths.file(RunFile::SkillResult))?;
    let kept = skill_result.is_some();
    let Turned { exit, stop, reader, dismissed, behind_engine, .. } = turned;
    let verdict = match reader {
        TurnReader::Script(_) => {
            let (output, output_json) = match behind_engine {
                None => (RunFile::EngineOutput, RunFile::EngineOutputJson),
                Some(_) => (RunFile::ScriptOutput, RunFile::ScriptOutputJson),
            };
            let stdout =
                read_output(&paths.file(RunFile::Stdout), behind_engine.map_or(0, |behind| behind.stdout_from))?;
            files::write_whole(&paths.file(output), &stdout)?;
            let verdict = judge_script(&ScriptRemains {
                exit,
                stop,
                stdout: &text_of(stdout),
                stderr_tail: &read_tail(&paths.file(RunFile::Stderr))?,
                skill_result: skill_result.as_deref(),
                output: skill.output_validator(),
                raw_output: output.name(),
            });
            keep_answer(&paths.file(output_json), &verdict)?;
            verdict
        }
        TurnReader::Cli(parser, adapter) => {
            let said = parser.report().final_text.clone().unwrap_or_default();
            files::write_whole(&paths.file(RunFile::EngineOutput), said.as_bytes())?;
            let end = EngineEnd { parser: &parser, adapter, exit, dismissed, stop };
            let verdict = judge_cli(&end.remains(state, skill, skill_result.as_deref()));
            keep_answer(&paths.file(RunFile::EngineOutputJson), &verdict)?;
            verdict
        }
    };
    Ok((verdict, kept))
}

/// Judge what a session answered when it was asked again. Blocks.
pub(crate) fn judge_repair(paths: &RunPaths, state: &RunState, skill: &Skill, asked: Asked) -> Result<Verdict, Error> {
    reclaim(paths)?;
    let Asked { end: StageEnd { exit, stop, reader, dismissed }, before } = asked;
    let TurnReader::Cli(parser, adapter) = reader else {
        return Ok(Verdict::failed(RunError::new(code::INTERNAL, "only an engine can be asked again")));
    };
    let said = parser.report().final_text.clone().unwrap_or_default();
    files::write_whole(&paths.file(RunFile::RepairOutput), said.as_bytes())?;
    let named = skill.manifest.entrypoint.prompt.result_file.as_deref();
    let written = result_file::keep(paths, named, before, &paths.file(RunFile::RepairResult))?;
    let end = EngineEnd { parser: &parser, adapter, exit, dismissed, stop };
    Ok(judge_cli(&end.remains(state, skill, written.as_deref())))
}

/// The words of an engine that a script stands behind, or the verdict on one that failed or asks. Blocks.
pub(crate) fn hear(
    paths: &RunPaths,
    state: &RunState,
    skill: &Skill,
    engine: StageEnd,
) -> Result<Result<String, Box<Verdict>>, Error> {
    reclaim(paths)?;
    // What the engine wrote there is not the script's result.
    result_file::clear(paths)?;
    let StageEnd { exit, stop, reader, dismissed } = engine;
    let TurnReader::Cli(parser, adapter) = reader else {
        let error = RunError::new(code::INTERNAL, "a hybrid skill runs on an engine");
        return Ok(Err(Box::new(Verdict::failed(error))));
    };
    let said = parser.report().final_text.clone().unwrap_or_default();
    files::write_whole(&paths.file(RunFile::EngineOutput), said.as_bytes())?;
    let end = EngineEnd { parser: &parser, adapter, exit, dismissed, stop };
    Ok(judge_words(&end.remains(state, skill, None)))
}

/// What the skill put in the runner's places is moved aside before the runner reads or writes there.
pub(crate) fn reclaim(paths: &RunPaths) -> Result<(), Error> {
    workspace::create_run(paths)?;
    // The sealed log is the runner's alone: from the terminal event on, a file in its place would be believed.
    let _ = files::remove_file(&paths.file(RunFile::Events));
    Ok(())
}

fn keep_answer(place: &Path, verdict: &Verdict) -> Result<(), Error> {
    match &verdict.answer {
        Some(answer) => Ok(files::write_whole(place, &pretty(answer))?),
        None => Ok(()),
    }
}

struct EngineEnd<'a> {
    parser: &'a TurnParser,
    adapter: &'static Adapter,
    exit: ProcessExit,
    dismissed: bool,
    stop: Option<Stop>,
}

impl EngineEnd<'_> {
    fn remains<'b>(&'b self, state: &RunState, skill: &'b Skill, skill_result: Option<&'b str>) -> CliRemains<'b> {
        CliRemains {
            adapter: self.adapter,
            report: self.parser.report(),
            exit: if self.dismissed { EngineExit::Dismissed } else { EngineExit::Ended(self.exit) },
            stop: self.stop.clone(),
            skill_result,
            output: skill.output_validator(),
            mode: state.options.execution_mode,
            attempt: state.attempt,
            max_attempt: skill.manifest.max_attempt,
        }
    }
}

/// Write the last files of a turn that is judged; `facts` are to be logged before its end. No process of the run may
/// have run since its places were reclaimed. Blocks.
pub(crate) fn close(
    paths: &RunPaths,
    state: &RunState,
    skill: &Skill,
    verdict: Verdict,
    mut facts: Vec<Fact>,
    ended: &Ended,
) -> Result<Conclusion, Error> {
    let Verdict { outcome, normalized, warnings, .. } = verdict;
    facts.extend(warnings.iter().map(warned));
    let outcome = match outcome {
        Ok(Outcome::Ask(interaction)) if !state.cancel_requested => {
            // The run goes on: its last files are written when it ends.
            let evidence = Evidence { streams: BTreeMap::new(), artifacts_sha256: String::new() };
            return Ok(Conclusion { facts, end: TurnEnd::NeedsInput(interaction), evidence, cached: None });
        }
        Ok(Outcome::Ask(_)) => Err(last_files::canceled()),
        Ok(Outcome::Done(completion, data)) => Ok((completion, data)),
        Err(error) => Err(error),
    };
    let indexed = artifact::index(&paths.root, &skill.artifact_contract())?;
    facts.extend(indexed.refused.iter().map(|refused| warned(&refused_artifact(refused))));
    let outcome = outcome.and_then(|done| match missing(&indexed) {
        None => Ok(done),
        Some(error) => Err(error),
    });
    let warnings = facts.iter().filter_map(warning_in).cloned().collect();
    facts.extend(normalized.clone().map(|normalized| Fact::own(Event::Normalized(normalized))));
    facts.extend(indexed.entries.iter().map(|entry| Fact::own(Event::ArtifactIndexed(entry.clone()))));
    let (status, data, error, end) = match outcome {
        // A cancel that was accepted stands, whatever the engine managed to finish meanwhile.
        _ if state.cancel_requested => {
            (Status::Canceled, None, Some(last_files::canceled()), TurnEnd::Failed(last_files::canceled()))
        }
        Ok((completion, data)) => {
            let end = TurnEnd::Succeeded { completion, result_path: RunFile::Result.name().to_owned() };
            (Status::Succeeded, Some(data), None, end)
        }
        Err(error) => (Status::Failed, None, Some(error.clone()), TurnEnd::Failed(error)),
    };
    let streams =
        BTreeMap::from([("stdout".to_owned(), proof(&ended.stdout)), ("stderr".to_owned(), proof(&ended.stderr))]);
    let artifacts = indexed.entries;
    let evidence =
        write_files(paths, Closing { state, status, data, error, artifacts, warnings, normalized, streams })?;
    let mut conclusion = Conclusion { facts, end, evidence, cached: None };
    conclusion.cached = cache::entry(paths, state, &conclusion);
    Ok(conclusion)
}

fn warning_in(fact: &Fact) -> Option<&Warning> {
    match &fact.event {
        Event::Warned(warning) => Some(warning),
        _ => None,
    }
}

fn proof(totals: &StreamTotals) -> StreamProof {
    StreamProof { bytes: totals.bytes, sha256: totals.sha256.clone() }
}

/// A script's answer, at most as long as it may be.
fn read_output(log: &Path, from: u64) -> Result<Vec<u8>, Error> {
    let doing = || format!("read {}", log.display());
    let mut file = open_log(log)?;
    if from > 0 {
        file.seek(SeekFrom::Start(from)).map_err(Error::io(doing()))?;
    }
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
    Ok(files::open_regular(log)?)
}

fn missing(indexed: &artifact::Indexed) -> Option<RunError> {
    if indexed.missing.is_empty() {
        return None;
    }
    let named = |pattern: &str| RunFolder::Artifacts.join(RunFolder::Artifacts.strip(pattern).unwrap_or(pattern));
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
