//! The actor of one running run: it alone writes to the run's log from start to end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use super::attempt::{Attempt, Clocks, Stop, TurnOver, warned, warnings};
use super::close::{self, Closing, RESULT_PATH, write_files};
use super::error::Error;
use super::handle::Shared;
use super::journal::{Journal, lost_race};
use super::prepare::{Prepared, prepare};
use super::verdict::{Remains, Verdict, judge};
use crate::artifact;
use crate::domain::command::{Command, RestartQueued, TurnEnd};
use crate::domain::event::Event;
use crate::domain::fact::{Fact, Stream};
use crate::domain::ids::RunId;
use crate::domain::outcome::{Evidence, RunError, StreamProof, Warning, code};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::engine::StreamReader;
use crate::engine::script;
use crate::skill::Skill;
use crate::supervisor::{self, Ended, Limits, Spec, StreamTotals};
use crate::workspace::RunPaths;

/// How much of standard error is read for an error message.
const STDERR_TAIL: u64 = 8 * 1024;

/// Something asked of a running run.
#[derive(Debug)]
pub(super) enum Message {
    /// Stop it.
    Cancel {
        /// Who asks.
        requested_by: String,
        /// Why.
        reason: String,
        /// Where the run is then.
        answer: oneshot::Sender<Result<Status, Error>>,
    },
    /// The service ends.
    Shutdown,
}

/// Drive a queued run to its end.
pub(super) async fn run(shared: Arc<Shared>, run: RunId, mut mailbox: mpsc::Receiver<Message>) {
    if let Err(failure) = drive(&shared, run, &mut mailbox).await {
        if lost_race(&failure) {
            // Somebody else moved the run on (a cancel in the queue): it is theirs now.
            return;
        }
        error!(run.id = %run, error = %chain(&failure), "the run could not be driven to its end");
        if let Err(again) = give_up(&shared, run, &failure).await {
            error!(run.id = %run, error = %chain(&again), "the run's failure could not be logged");
        }
    }
}

async fn drive(shared: &Arc<Shared>, run: RunId, mailbox: &mut mpsc::Receiver<Message>) -> Result<(), Error> {
    let mut journal = Journal::open(shared.store.clone(), run)?;
    if journal.state().status != Status::Queued || journal.state().awaiting_upload {
        return Ok(());
    }
    let prepared = match prepare(shared, journal.state()).await? {
        Ok(prepared) => prepared,
        Err(error) => return reject(shared, &mut journal, error).await,
    };
    let paths = shared.layout.run(run);
    let limits = Limits { stdout_max: Some(script::STDOUT_MAX), log_max: shared.settings.limits.max_log_bytes };
    let spec = Spec {
        launch: &prepared.launch,
        run,
        shim: &shared.shim,
        stdout_log: &paths.stdout(),
        stderr_log: &paths.stderr(),
        tmp_dir: &paths.tmp,
        limits,
    };
    let process = match supervisor::spawn(spec).await {
        Ok(process) => process,
        Err(failure) => return reject(shared, &mut journal, not_started(&prepared, &failure)).await,
    };
    journal
        .commit(Command::StartTurn {
            command: prepared.launch.argv.clone(),
            pid: process.pid(),
            engine_version: prepared.engine_version.clone(),
            parser_version: prepared.parser_version.to_owned(),
            isolation: "process-tree".to_owned(),
        })
        .await?;
    let options = &journal.state().options;
    let attempt = Attempt {
        process,
        stdout: StreamReader::new(Stream::Stdout, 0, script::LINE_MAX),
        stderr: StreamReader::new(Stream::Stderr, 0, script::LINE_MAX),
        parser: Box::new(script::ProgressParser),
        clocks: Clocks {
            hard_timeout_seconds: options.hard_timeout_seconds,
            stall_timeout_seconds: options.stall_timeout_seconds,
            kill_grace: Duration::from_secs(shared.settings.times.kill_grace_seconds),
            stdout_limit: script::STDOUT_MAX,
        },
        mailbox,
        stop: None,
    };
    let over = attempt.watch(&mut journal).await?;
    finish(shared, &mut journal, &prepared.skill, over).await
}

/// The run cannot start.
async fn reject(shared: &Arc<Shared>, journal: &mut Journal, error: RunError) -> Result<(), Error> {
    let closed = close::without_engine(shared, journal.state(), Status::Failed, error.clone()).await?;
    journal.commit(Command::Reject { error, evidence: closed.evidence }).await?;
    shared.sealer.seal_soon(journal.state().run_id);
    Ok(())
}

fn not_started(prepared: &Prepared, failure: &supervisor::Error) -> RunError {
    let program = prepared.launch.argv.first().cloned().unwrap_or_default();
    match failure {
        supervisor::Error::NotFound { .. } => RunError::new(
            code::ENGINE_NOT_INSTALLED,
            format!("the program {program:?} was not found; install it or correct entrypoint.script.command"),
        ),
        other => RunError::new(code::ENGINE_FAILED, format!("{program:?} could not be started: {}", chain(other))),
    }
    .with("program", program)
}

/// The turn is over: judge it, write the last files, log the end.
async fn finish(shared: &Arc<Shared>, journal: &mut Journal, skill: &Skill, over: TurnOver) -> Result<(), Error> {
    let run = journal.state().run_id;
    let paths = shared.layout.run(run);
    let TurnOver { mut facts, ended, stop } = over;
    let state = journal.state().clone();
    let (skill, turn_ended, turn_stop) = (skill.clone(), ended.clone(), stop.clone());
    let conclusion = tokio::task::spawn_blocking(move || conclude(&paths, &state, &skill, &turn_ended, turn_stop))
        .await
        .map_err(|error| Error::io("conclude the run")(error.into()))??;
    facts.extend(conclusion.facts);
    if stop == Some(Stop::Shutdown) && !journal.state().cancel_requested {
        let command =
            Command::Reconcile { restart_queued: RestartQueued::Fail, tails: facts, evidence: conclusion.evidence };
        journal.commit(command).await?;
    } else {
        journal.commit(Command::EndTurn { facts, end: conclusion.end, evidence: conclusion.evidence }).await?;
    }
    shared.sealer.seal_soon(run);
    Ok(())
}

struct Conclusion {
    facts: Vec<Fact>,
    end: TurnEnd,
    evidence: Evidence,
}

/// Judge the turn and write the last files. Blocks.
fn conclude(
    paths: &RunPaths,
    state: &RunState,
    skill: &Skill,
    ended: &Ended,
    stop: Option<Stop>,
) -> Result<Conclusion, Error> {
    let stdout = read_output(&paths.stdout(), &paths.raw_engine_output())?;
    let stderr_tail = read_tail(&paths.stderr())?;
    let skill_result = keep_skill_result(paths)?;
    let verdict = judge(&Remains {
        exit: ended.exit,
        stop,
        stdout: &stdout,
        stderr_tail: &stderr_tail,
        skill_result: skill_result.as_deref(),
        output: skill.output_validator(),
    });
    if let Some(answer) = &verdict.answer {
        crate::workspace::write_whole(&paths.raw_engine_output_json(), &super::create::pretty(answer))?;
    }
    let indexed = artifact::index(&paths.root, &skill.artifact_contract())?;
    let Verdict { outcome, normalized, warnings: found, .. } = verdict;
    let mut noted = warnings(ended);
    noted.extend(found);
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

fn proof(totals: &StreamTotals) -> StreamProof {
    StreamProof { bytes: totals.bytes, sha256: totals.sha256.clone() }
}

/// The script's answer, at most as long as it may be, kept as the engine's raw output.
fn read_output(log: &std::path::Path, kept: &std::path::Path) -> Result<String, Error> {
    let doing = || format!("read {}", log.display());
    let file = std::fs::File::open(log).map_err(Error::io(doing()))?;
    let mut bytes = Vec::new();
    let mut limited = std::io::Read::take(file, script::STDOUT_MAX);
    std::io::Read::read_to_end(&mut limited, &mut bytes).map_err(Error::io(doing()))?;
    crate::workspace::write_whole(kept, &bytes)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned()))
}

fn read_tail(log: &std::path::Path) -> Result<String, Error> {
    use std::io::{Read, Seek, SeekFrom};
    let doing = || format!("read {}", log.display());
    let mut file = std::fs::File::open(log).map_err(Error::io(doing()))?;
    let length = file.metadata().map_err(Error::io(doing()))?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL))).map_err(Error::io(doing()))?;
    let mut bytes = Vec::new();
    file.take(STDERR_TAIL).read_to_end(&mut bytes).map_err(Error::io(doing()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A result file the skill wrote is kept as it was: the final result takes its place.
fn keep_skill_result(paths: &RunPaths) -> Result<Option<String>, Error> {
    let written = paths.result_json();
    let Ok(found) = std::fs::symlink_metadata(&written) else { return Ok(None) };
    if !found.is_file() || found.len() > script::STDOUT_MAX {
        return Ok(None);
    }
    let bytes = std::fs::read(&written).map_err(Error::io(format!("read {}", written.display())))?;
    crate::workspace::write_whole(&paths.raw_skill_result(), &bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn missing(indexed: &artifact::Indexed) -> Option<RunError> {
    if indexed.missing.is_empty() {
        return None;
    }
    let patterns: Vec<String> = indexed
        .missing
        .iter()
        .map(|entry| format!("artifacts/{}", entry.pattern.trim_start_matches("artifacts/")))
        .collect();
    let message = format!("required artifacts are missing: {}", patterns.join(", "));
    Some(RunError::new(code::ARTIFACT_MISSING, message).with("missing", patterns))
}

fn refused_artifact(refused: &artifact::Refused) -> Warning {
    let message = format!("{} is not an artifact: {}", refused.path_rel, refused.reason);
    let mut warning = Warning::new("ARTIFACT_REFUSED", message);
    warning.details.insert("path".into(), refused.path_rel.clone().into());
    warning
}

/// The runner broke: the run fails with what can still be said.
async fn give_up(shared: &Arc<Shared>, run: RunId, failure: &Error) -> Result<(), Error> {
    let mut journal = Journal::open(shared.store.clone(), run)?;
    if journal.state().status.is_final() {
        return Ok(());
    }
    warn!(run.id = %run, "failing the run");
    let error = RunError::new(code::INTERNAL, format!("the runner failed: {failure}"));
    if journal.state().status == Status::Queued {
        return reject(shared, &mut journal, error).await;
    }
    let mut facts = super::startup::uncovered(shared, journal.state()).await?;
    let closed = close::without_engine(shared, journal.state(), Status::Failed, error.clone()).await?;
    facts.extend(closed.facts);
    journal.commit(Command::EndTurn { facts, end: TurnEnd::Failed(error), evidence: closed.evidence }).await?;
    shared.sealer.seal_soon(run);
    Ok(())
}

/// An error with its causes, for the service's log.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}
