//! The actor of one running run: it alone writes to the run's log from start to end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use super::attempt::{Attempt, Clocks, Stop, TurnOver, end, warned};
use super::close;
use super::conclude::{Turned, conclude};
use super::error::Error;
use super::handle::Shared;
use super::journal::{Journal, lost_race};
use super::prepare::{Prepared, prepare};
use super::surroundings::Work;
use crate::domain::causes::chain;
use crate::domain::command::{Command, RestartQueued, TurnEnd};
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::outcome::{RunError, code};
use crate::domain::statechart::Status;
use crate::engine::StreamReader;
use crate::skill::Skill;
use crate::supervisor::{self, Limits, Spec};

/// When a failure that could not be logged is tried again, at first and at last.
const RETRY_AFTER: Duration = Duration::from_millis(100);
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(10);

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
    while let Err(failure) = drive(&shared, run, &mut mailbox).await {
        if lost_race(&failure) && shared.log.head(run).is_ok_and(|head| head.state.status == Status::Queued) {
            // Somebody else wrote first and left the run in the queue: look again.
            continue;
        }
        error!(run.id = %run, error = %chain(&failure), "the run could not be driven to its end");
        return fail(&shared, run, &failure, &mut mailbox).await;
    }
}

/// Log the failure, however long the store refuses: nobody else drives this run, and without an end it would seem to
/// run until the next start.
async fn fail(shared: &Arc<Shared>, run: RunId, failure: &Error, mailbox: &mut mpsc::Receiver<Message>) {
    let mut pause = RETRY_AFTER;
    while let Err(again) = give_up(shared, run, failure).await {
        error!(run.id = %run, error = %chain(&again), "the run's failure could not be logged; trying again");
        tokio::select! {
            biased;
            message = mailbox.recv() => match message {
                Some(Message::Cancel { answer, .. }) => {
                    let _ = answer.send(Err(Error::io("cancel the run")(std::io::Error::other(chain(&again).to_string()))));
                }
                // The next start settles it.
                Some(Message::Shutdown) | None => return,
            },
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_AFTER_AT_MOST),
        }
    }
}

async fn drive(shared: &Arc<Shared>, run: RunId, mailbox: &mut mpsc::Receiver<Message>) -> Result<(), Error> {
    let mut journal = shared.journal(run)?;
    if journal.state().status != Status::Queued || journal.state().awaiting_upload {
        return Ok(());
    }
    let prepared = match prepare(shared, journal.state()).await? {
        Ok(prepared) => prepared,
        Err(error) => return reject(shared, &mut journal, error).await,
    };
    let paths = shared.layout.run(run);
    let limits = Limits { stdout_max: prepared.stdout_max, log_max: shared.settings.limits.max_log_bytes };
    let spec = Spec {
        launch: &prepared.launch,
        run,
        shim: &shared.shim,
        stdout_log: &paths.stdout(),
        stderr_log: &paths.stderr(),
        tmp_dir: &paths.tmp,
        limits,
    };
    let process = match shared.engines.spawn(spec).await {
        Ok(process) => process,
        Err(failure) => return reject(shared, &mut journal, not_started(&prepared, &failure)).await,
    };
    let start = Command::StartTurn {
        command: prepared.shown_argv.clone(),
        pid: process.pid(),
        engine_version: prepared.engine_version.clone(),
        parser_version: prepared.parser_version.to_owned(),
        isolation: prepared.isolation.to_owned(),
    };
    if let Err(error) = journal.commit(start).await {
        let begins = [(paths.stdout(), prepared.stdout_from), (paths.stderr(), prepared.stderr_from)];
        take_back(process, begins).await;
        return Err(error);
    }
    if let Some(warning) = &prepared.warning {
        if let Err(error) = journal.commit(Command::Record(vec![warned(warning)])).await {
            end(process).await;
            return Err(error);
        }
    }
    let options = &journal.state().options;
    let times = &shared.settings.times;
    let attempt = Attempt {
        process,
        stdout: StreamReader::new(Stream::Stdout, prepared.stdout_from, prepared.line_max),
        stderr: StreamReader::new(Stream::Stderr, prepared.stderr_from, prepared.line_max),
        reader: prepared.reader,
        clocks: Clocks {
            hard_timeout_seconds: options.hard_timeout_seconds,
            stall_timeout_seconds: options.stall_timeout_seconds,
            kill_grace: Duration::from_secs(times.kill_grace_seconds),
            exit_grace: Duration::from_secs(times.exit_grace_seconds),
            stdout_limit: prepared.stdout_max.unwrap_or_default(),
        },
        mailbox,
        stop: None,
        last_output: Vec::new(),
    };
    let over = attempt.watch(&mut journal).await?;
    finish(shared, &mut journal, prepared.skill, over).await
}

/// The engine's start could not be logged (a cancel came first): it never happened, so nothing of it may stay.
/// What earlier turns wrote stays.
async fn take_back(mut process: supervisor::Process, begins: [(PathBuf, u64); 2]) {
    process.withhold_input();
    end(process).await;
    for (log, from) in begins {
        if from == 0 {
            let _ = std::fs::remove_file(log);
        } else {
            let _ = std::fs::OpenOptions::new().write(true).open(log).and_then(|log| log.set_len(from));
        }
    }
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
async fn finish(shared: &Arc<Shared>, journal: &mut Journal, skill: Skill, over: TurnOver) -> Result<(), Error> {
    let run = journal.state().run_id;
    let paths = shared.layout.run(run);
    let TurnOver { mut facts, ended, stop, reader, dismissed } = over;
    let state = journal.state().clone();
    let interrupted = stop == Some(Stop::Shutdown) && !state.cancel_requested;
    let conclusion =
        Work::run(&shared.work, move || conclude(&paths, &state, &skill, Turned { ended, stop, reader, dismissed }))
            .await
            .map_err(|error| Error::io("conclude the run")(error.into()))??;
    facts.extend(conclusion.facts);
    let evidence = conclusion.evidence;
    journal
        .commit(if interrupted {
            Command::Reconcile { restart_queued: RestartQueued::Fail, tails: facts, evidence }
        } else {
            Command::EndTurn { facts, end: conclusion.end, evidence }
        })
        .await?;
    shared.owe(journal.state());
    let request = shared.layout.request_engine_config(journal.state().request_id);
    if journal.state().status.is_final() && request.exists() {
        // The configuration a client sent may hold secrets; nobody needs it any more.
        let _ = std::fs::remove_file(&request);
        let _ = request.parent().map(std::fs::remove_dir);
    }
    Ok(())
}

/// The runner broke: the run fails with what can still be said.
pub(super) async fn give_up(shared: &Arc<Shared>, run: RunId, failure: &Error) -> Result<(), Error> {
    let mut journal = shared.journal(run)?;
    if !matches!(journal.state().status, Status::Queued | Status::Running) {
        return Ok(());
    }
    warn!(run.id = %run, "failing the run");
    let error = RunError::new(code::INTERNAL, format!("the runner failed: {failure}"));
    if journal.state().status == Status::Queued {
        return reject(shared, &mut journal, error).await;
    }
    let mut facts = super::startup::uncovered(shared, journal.state()).await?;
    // A cancel that was accepted stands, also in the files.
    let (status, shown) = match journal.state().cancel_requested {
        true => (Status::Canceled, close::canceled()),
        false => (Status::Failed, error.clone()),
    };
    let closed = close::without_engine(shared, journal.state(), status, shown).await?;
    facts.extend(closed.facts);
    journal.commit(Command::EndTurn { facts, end: TurnEnd::Failed(error), evidence: closed.evidence }).await?;
    shared.sealer.seal_soon(run);
    Ok(())
}
