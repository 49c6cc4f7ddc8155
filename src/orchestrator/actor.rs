//! The actor of one running run: it alone writes to the run's log from start to end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use super::attempt::warned;
use super::close;
use super::ending::Ending;
use super::error::Error;
use super::handle::Shared;
use super::journal::{Journal, lost_race};
use super::prepare::{Prepared, Start, prepare};
use super::stage::{self, Deadline};
use crate::domain::causes::chain;
use crate::domain::command::{Command, TurnEnd};
use crate::domain::ids::RunId;
use crate::domain::outcome::{RunError, code};
use crate::domain::statechart::Status;
use crate::supervisor;

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
    let process = match stage::start(shared, run, &stage.launch, stage.stdout_max).await {
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
        take_back(process, [(paths.stdout(), from.0), (paths.stderr(), from.1)]).await;
        return Err(error);
    }
    if let Some(warning) = &warning {
        journal.commit(Command::Record(vec![warned(warning)])).await?;
    }
    // The engine's time begins when its start is on record.
    let deadline = Deadline::after(Duration::from_secs(journal.state().options.hard_timeout_seconds));
    let attempt = stage::attempt(shared, journal.state(), process, stage, deadline, from, mailbox);
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
    process.withhold_input();
    process.stop(Duration::ZERO);
    while process.next().await.is_some() {}
    for (log, from) in begins {
        if from == 0 {
            let _ = std::fs::remove_file(log);
        } else {
            let _ = std::fs::OpenOptions::new().write(true).open(log).and_then(|log| log.set_len(from));
        }
    }
}

/// The run cannot start.
pub(super) async fn reject(shared: &Arc<Shared>, journal: &mut Journal, error: RunError) -> Result<(), Error> {
    let closed = close::without_engine(shared, journal.state(), Status::Failed, error.clone()).await?;
    journal.commit(Command::Reject { facts: closed.facts, error, evidence: closed.evidence }).await?;
    shared.owe(journal.state());
    Ok(())
}

/// Why a program could not be started, as the run's error.
pub(super) fn not_started(program: &str, failure: &supervisor::Error) -> RunError {
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
pub(super) async fn give_up(shared: &Arc<Shared>, run: RunId, failure: &Error) -> Result<(), Error> {
    let mut journal = shared.journal(run)?;
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
    shared.owe(journal.state());
    Ok(())
}
