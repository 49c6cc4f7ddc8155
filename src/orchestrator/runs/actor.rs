//! The actor of one running run: it alone writes to the run's log from start to end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use crate::domain::causes::chain;
use crate::domain::command::{Command, TurnEnd};
use crate::domain::ids::RunId;
use crate::domain::outcome::{RunError, code};
use crate::domain::run_file::RunFile;
use crate::domain::statechart::Status;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Shared;
use crate::orchestrator::log::journal::{Journal, lost_race};
use crate::orchestrator::turn::conclude::Ending;
use crate::orchestrator::turn::last_files;
use crate::orchestrator::turn::prepare::{Prepared, Start, prepare};
use crate::orchestrator::turn::process;
use crate::orchestrator::turn::process::Deadline;
use crate::orchestrator::turn::watch::{end, warned};
use crate::supervisor;

/// When a failure that could not be logged is tried again, at first and at last.
const RETRY_AFTER: Duration = Duration::from_millis(100);
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(10);

/// Something asked of a running run.
#[derive(Debug)]
pub(crate) enum Message {
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
pub(crate) async fn run(shared: Arc<Shared>, run: RunId, mut mailbox: mpsc::Receiver<Message>) {
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
                // Somebody else wrote first: whoever asks looks again, and so does this.
                Some(Message::Cancel { answer, .. }) if lost_race(&again) => drop(answer),
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
    let Prepared { start, skill, script, from, result_before } = prepared;
    let Start { stage, shown_argv, engine_version, parser_version, isolation, warning } = start;
    let process = match process::start(shared, run, &stage.launch, stage.stdout_max).await {
        Ok(process) => process,
        Err(failure) => {
            let program = stage.launch.argv.first().cloned().unwrap_or_default();
            return reject(shared, &mut journal, not_started(&program, &failure)).await;
        }
    };
    let start = Command::StartTurn {
        command: shown_argv,
        pid: process.pid(),
        engine_version,
        parser_version: parser_version.to_owned(),
        isolation: isolation.to_owned(),
    };
    if let Err(error) = journal.commit(start).await {
        let paths = shared.layout.run(run);
        take_back(process, [(paths.file(RunFile::Stdout), from.0), (paths.file(RunFile::Stderr), from.1)]).await;
        return Err(error);
    }
    if let Some(warning) = &warning
        && let Err(error) = journal.commit(Command::Record(vec![warned(warning)])).await
    {
        end(process).await;
        return Err(error);
    }
    // The engine's time begins when its start is on record.
    let deadline = Deadline::after(Duration::from_secs(journal.state().options.hard_timeout_seconds));
    let attempt = process::attempt(shared, journal.state(), process, stage, deadline, from, mailbox);
    let over = attempt.watch(&mut journal, Vec::new()).await?;
    let ending = Ending {
        shared,
        journal: &mut journal,
        mailbox,
        skill: Arc::new(skill),
        script,
        result_before,
        deadline,
        facts: Vec::new(),
        stop: over.stop.clone(),
        ended: over.ended.clone(),
    };
    ending.finish(over).await
}

/// The engine's start could not be logged (a cancel came first): it never happened, so nothing of it may stay.
/// What earlier turns wrote stays.
async fn take_back(mut process: supervisor::Process, begins: [(PathBuf, u64); 2]) {
    process.discard_input();
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
pub(crate) async fn reject(shared: &Arc<Shared>, journal: &mut Journal, error: RunError) -> Result<(), Error> {
    let closed = last_files::without_engine(shared, journal.state(), Status::Failed, error.clone()).await?;
    journal.commit(Command::Reject { facts: closed.facts, error, evidence: closed.evidence }).await?;
    shared.owe(journal.state());
    Ok(())
}

/// Why a program could not be started, as the run's error.
pub(crate) fn not_started(program: &str, failure: &supervisor::Error) -> RunError {
    match failure {
        supervisor::Error::NotFound { .. } => RunError::new(
            code::ENGINE_NOT_INSTALLED,
            format!("the program {program:?} was not found; install it or correct entrypoint.script.command"),
        ),
        other => RunError::new(code::ENGINE_FAILED, format!("{program:?} could not be started: {}", chain(other))),
    }
    .with("program", program)
}

/// The runner broke: the run fails with what can still be said.
pub(crate) async fn give_up(shared: &Arc<Shared>, run: RunId, failure: &Error) -> Result<(), Error> {
    let mut journal = shared.journal(run)?;
    if !matches!(journal.state().status, Status::Queued | Status::Running) {
        return Ok(());
    }
    warn!(run.id = %run, "failing the run");
    let error = RunError::new(code::INTERNAL, format!("the runner failed: {failure}"));
    if journal.state().status == Status::Queued {
        return reject(shared, &mut journal, error).await;
    }
    let mut facts = crate::orchestrator::runs::recovery::uncovered(shared, journal.state()).await?;
    // A cancel that was accepted stands, also in the files.
    let (status, shown) = match journal.state().cancel_requested {
        true => (Status::Canceled, last_files::canceled()),
        false => (Status::Failed, error.clone()),
    };
    let closed = last_files::without_engine(shared, journal.state(), status, shown).await?;
    facts.extend(closed.facts);
    journal.commit(Command::EndTurn { facts, end: TurnEnd::Failed(error), evidence: closed.evidence }).await?;
    shared.owe(journal.state());
    Ok(())
}
