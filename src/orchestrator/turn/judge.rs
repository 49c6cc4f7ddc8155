//! What a turn left on disk and in its output, read and judged.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::domain::codes::ErrorCode;
use crate::domain::outcome::RunError;
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::engine::{Adapter, TurnParser, WayOut, script};
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::results::pretty;
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::result_file::{self, FileMark, text_of};
use crate::orchestrator::turn::watch::FinishedProcess;
use crate::prompt::contract;
use crate::skill::Skill;
use crate::supervisor::ProcessExit;
use crate::verdict::cli::{CliTurn, judge_cli, judge_words};
use crate::verdict::script::{ScriptTurn, judge_script};
use crate::verdict::stop::Stop;
use crate::verdict::verdict::Verdict;
use crate::workspace::{self, RunPaths};

/// How much of standard error is read for an error message.
const STDERR_TAIL: u64 = 8 * 1024;

/// Which part of a turn a process was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    Whole,
    /// The script of a hybrid skill; its own output begins here, behind the engine's.
    ScriptBehindEngine {
        stdout_from: u64,
    },
}

/// A process whose output is to be judged as the turn's.
pub(crate) struct JudgedProcess {
    pub process: FinishedProcess,
    /// The result file as the turn found it.
    pub result_before: Option<FileMark>,
    pub part: Judged,
}

/// Judge the turn; also whether it left a result file. Blocks.
pub(crate) fn judge(
    paths: &RunPaths,
    state: &RunState,
    skill: &Skill,
    judged: JudgedProcess,
) -> Result<(Verdict, bool), Error> {
    workspace::reclaim(paths)?;
    let JudgedProcess { process, result_before, part } = judged;
    let named = skill.manifest.entrypoint.prompt.result_file.as_deref().filter(|_| part == Judged::Whole);
    let skill_result = result_file::keep(paths, named, result_before, &paths.file(RunFile::SkillResult))?;
    let kept = skill_result.is_some();
    let FinishedProcess { exit, stop, reader, stderr_from, way_out } = process;
    let verdict = match reader {
        TurnReader::Script(_) => {
            let (output, output_json, from) = match part {
                Judged::Whole => (RunFile::EngineOutput, RunFile::EngineOutputJson, 0),
                Judged::ScriptBehindEngine { stdout_from } => {
                    (RunFile::ScriptOutput, RunFile::ScriptOutputJson, stdout_from)
                }
            };
            let stdout = read_output(&paths.file(RunFile::Stdout), from)?;
            files::write_own(&paths.file(output), &stdout)?;
            let verdict = judge_script(&ScriptTurn {
                exit,
                stop,
                stdout: &text_of(stdout),
                stderr_tail: &read_tail(&paths.file(RunFile::Stderr), stderr_from)?,
                skill_result: skill_result.as_deref(),
                output: skill.output_validator(),
                raw_output: output.name(),
            });
            keep_answer(&paths.file(output_json), &verdict)?;
            verdict
        }
        TurnReader::Cli(parser, adapter) => {
            let engine = Engine { parser: &parser, adapter, exit, stop, way_out };
            let verdict = judge_cli(&engine.turn(state, skill, skill_result.as_deref()));
            keep_message(&paths.file(RunFile::EngineOutput), &parser, &verdict)?;
            keep_answer(&paths.file(RunFile::EngineOutputJson), &verdict)?;
            verdict
        }
    };
    Ok((verdict, kept))
}

/// Judge what a session answered when it was asked again; `before` is the result file as it was then. Blocks.
pub(crate) fn judge_repair(
    paths: &RunPaths,
    state: &RunState,
    skill: &Skill,
    process: FinishedProcess,
    before: Option<FileMark>,
) -> Result<Verdict, Error> {
    workspace::reclaim(paths)?;
    let FinishedProcess { exit, stop, reader, stderr_from: _, way_out } = process;
    let TurnReader::Cli(parser, adapter) = reader else {
        return Ok(Verdict::failed(RunError::new(ErrorCode::Internal, "only an engine can be asked again")));
    };
    let named = skill.manifest.entrypoint.prompt.result_file.as_deref();
    let written = result_file::keep(paths, named, before, &paths.file(RunFile::RepairResult))?;
    let engine = Engine { parser: &parser, adapter, exit, stop, way_out };
    let verdict = judge_cli(&engine.turn(state, skill, written.as_deref()));
    keep_message(&paths.file(RunFile::RepairOutput), &parser, &verdict)?;
    Ok(verdict)
}

/// The words of a hybrid skill's engine, or the verdict on one that failed or asks. Blocks.
pub(crate) fn engine_words(
    paths: &RunPaths,
    state: &RunState,
    skill: &Skill,
    process: FinishedProcess,
) -> Result<Result<String, Box<Verdict>>, Error> {
    workspace::reclaim(paths)?;
    // What the engine wrote there is not the script's result.
    result_file::clear(paths)?;
    let FinishedProcess { exit, stop, reader, stderr_from: _, way_out } = process;
    let TurnReader::Cli(parser, adapter) = reader else {
        let error = RunError::new(ErrorCode::Internal, "a hybrid skill runs on an engine");
        return Ok(Err(Box::new(Verdict::failed(error))));
    };
    files::write_own(&paths.file(RunFile::EngineOutput), final_text(&parser).as_bytes())?;
    let engine = Engine { parser: &parser, adapter, exit, stop, way_out };
    Ok(judge_words(&engine.turn(state, skill, None)))
}

/// The engine's message as it was: the one with the output, else the last one.
fn keep_message(place: &Path, parser: &TurnParser, verdict: &Verdict) -> Result<(), Error> {
    let messages = parser.report().messages();
    let text = match verdict.message {
        Some(number) => messages.get(number.saturating_sub(1)),
        None => messages.last(),
    };
    Ok(files::write_own(place, text.map(String::as_bytes).unwrap_or_default())?)
}

fn final_text(parser: &TurnParser) -> &str {
    parser.report().final_text().unwrap_or_default()
}

fn keep_answer(place: &Path, verdict: &Verdict) -> Result<(), Error> {
    match &verdict.answer {
        Some(answer) => Ok(files::write_own(place, &pretty(answer))?),
        None => Ok(()),
    }
}

/// An agent CLI that has ended.
struct Engine<'a> {
    parser: &'a TurnParser,
    adapter: &'static Adapter,
    exit: ProcessExit,
    stop: Option<Stop>,
    way_out: WayOut,
}

impl Engine<'_> {
    fn turn<'b>(&'b self, state: &RunState, skill: &'b Skill, skill_result: Option<&'b str>) -> CliTurn<'b> {
        CliTurn {
            adapter: self.adapter,
            report: self.parser.report(),
            exit: self.exit,
            stop: self.stop.clone(),
            way_out: &self.way_out,
            skill_result,
            output: skill.output_validator(),
            takes_text: contract::takes_text(&skill.manifest.entrypoint.prompt),
            mode: state.options.execution_mode,
            attempt: state.attempt - state.retries.min(state.attempt),
            max_attempt: skill.manifest.max_attempt,
        }
    }
}

/// A script's answer, at most as long as it may be.
pub(crate) fn read_output(log: &Path, from: u64) -> Result<Vec<u8>, Error> {
    let doing = || format!("read {}", log.display());
    let mut file = open_log(log)?;
    if from > 0 {
        file.seek(SeekFrom::Start(from)).map_err(Error::io(doing()))?;
    }
    let mut bytes = Vec::new();
    file.take(script::STDOUT_MAX).read_to_end(&mut bytes).map_err(Error::io(doing()))?;
    Ok(bytes)
}

/// The end of what a process wrote, which begins at `from`.
fn read_tail(log: &Path, from: u64) -> Result<String, Error> {
    let doing = || format!("read {}", log.display());
    let mut file = open_log(log)?;
    let length = file.metadata().map_err(Error::io(doing()))?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL).max(from))).map_err(Error::io(doing()))?;
    let mut bytes = Vec::new();
    file.take(STDERR_TAIL).read_to_end(&mut bytes).map_err(Error::io(doing()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn open_log(log: &Path) -> Result<fs::File, Error> {
    Ok(files::open_regular(log)?)
}
