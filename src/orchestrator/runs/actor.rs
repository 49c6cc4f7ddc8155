//! The actor of one running run: it alone writes to the run's log from start to end.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tracing::field::display;
use tracing::{Instrument, Span, debug, error, info, warn};

use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::domain::command::{Command, Conclusion};
use crate::domain::ids::RunId;
use crate::domain::isolation::{Isolation, Part, Tier};
use crate::domain::outcome::RunError;
use crate::domain::resources::ResourceLimits;
use crate::domain::run_file::RunFile;
use crate::domain::statechart::Status;
use crate::files::{self, Shortage};
use crate::orchestrator::admission::cache::Wanted;
use crate::orchestrator::admission::effects::finish_from_cache;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::coverage::Coverage;
use crate::orchestrator::log::journal::{Journal, lost_race, never_fits, not_owner};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::again::Again;
use crate::orchestrator::shared::live::Mailbox;
use crate::orchestrator::turn::at_rest;
use crate::orchestrator::turn::conclude::{conclude, conclude_unbegun};
use crate::orchestrator::turn::confine_installer;
use crate::orchestrator::turn::current::Turn;
use crate::orchestrator::turn::deadline::Deadline;
use crate::orchestrator::turn::prepare::{Prepared, prepare};
use crate::orchestrator::turn::process::{self, Starting};
use crate::orchestrator::turn::start::Start;
use crate::orchestrator::turn::warnings::warned;
use crate::orchestrator::turn::watch::end;
use crate::{store, supervisor, workspace};

/// When a failure that could not be logged is tried again, at first and at last.
const RETRY_AFTER: Duration = Duration::from_millis(100);
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(10);
/// How often a failure is tried while the run keeps its place, if only the run's own files are in the way.
const TRIES_IN_PLACE: u32 = 6;

/// When a turn that could not begin, because the store was away, is tried again.
const BEGIN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a start goes on that somebody else is always faster than.
const RACES_FOR: Duration = Duration::from_secs(5);

/// How an actor leaves its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Over, at rest, or to another service.
    Settled,
    /// Neither driven nor failed: whoever takes it next meets the same.
    Unsettled,
}

/// Drive a queued run to the end of its turn.
pub(crate) async fn run(shared: Arc<Shared>, run: RunId, mut mailbox: Mailbox) -> Left {
    if shared.member.is_some() {
        // From the queue of all services a run is taken as soon as it is on record; who put it there may still be at its files.
        drop(shared.run_locks.lock(run).await);
    }
    let mut again = Again::within(run, RACES_FOR);
    let mut is_named = false;
    while let Err(mut failure) = drive(&shared, run, &mut mailbox, &mut is_named).await {
        let queued = |status: Status| status == Status::Queued;
        if lost_race(&failure) && shared.log.head(run).await.is_ok_and(|head| queued(head.state.status())) {
            // Somebody else wrote first and left the run in the queue: look again.
            match again.lost(failure, &*shared.store).await {
                Ok(()) => continue,
                // Nothing is wrong with it, and it can still begin.
                Err(Error::RunBusy { .. }) => {
                    again = Again::within(run, RACES_FOR);
                    continue;
                }
                Err(corrupt) => failure = corrupt,
            }
        }
        if not_owner(&failure) {
            warn!("another service has taken the run over; it is left to that");
            return Left::Settled;
        }
        if shared.member.is_some() && matches!(failure, Error::Store(store::Error::Unreachable { .. })) {
            let is_begun = shared.log.head(run).await.map(|head| !queued(head.state.status()));
            if !matches!(is_begun, Ok(true)) {
                warn!(error = %chain(&failure), "the run could not begin; trying again");
                tokio::time::sleep(BEGIN_AGAIN_AFTER).await;
                continue;
            }
        }
        error!(error = %chain(&failure), "the run could not be driven to its end");
        return fail(&shared, run, failure, &mut mailbox).await;
    }
    Left::Settled
}

/// Log the failure, however long the store refuses: nobody else drives this run, and without an end it would seem to
/// run until the next start. Where its own files are in the way, others do not wait for its place meanwhile.
async fn fail(shared: &Arc<Shared>, run: RunId, failure: Error, mailbox: &mut Mailbox) -> Left {
    let (mut pause, mut tries) = (RETRY_AFTER, 0);
    while let Err(again) = give_up(shared, run, &failure).await {
        if not_owner(&again) {
            warn!("another service has taken the run over; it is left to that");
            return Left::Settled;
        }
        if matches!(again, Error::RunNotFound { .. }) {
            // This service was stopped so long that others have taken the run over, ended it and deleted it.
            warn!("the run was deleted meanwhile");
            return Left::Settled;
        }
        if never_fits(&again) {
            // Others wait for its place. Whoever cancels it, and the next start, try again.
            error!(error = %chain(&again), "the run's failure cannot be logged; the run is left as it is");
            return Left::Unsettled;
        }
        tries += 1;
        if tries >= TRIES_IN_PLACE && of_the_run_alone(&again) {
            error!(error = %chain(&again), "the run's failure could not be logged; its place is free, and it is tried again");
            if shared.member.is_none() {
                // Among several services, whoever takes it next tries again.
                tokio::spawn(fail_later(Arc::downgrade(shared), run, failure).in_current_span());
            }
            return Left::Unsettled;
        }
        error!(error = %chain(&again), "the run's failure could not be logged; trying again");
        tokio::select! {
            biased;
            message = mailbox.recv() => match message {
                // Somebody else wrote first: whoever asks looks again, and so does this.
                Some(message) if lost_race(&again) => drop(message),
                Some(message) => {
                    let unwritable = std::io::Error::other(chain(&again));
                    // Whoever asked may be gone.
                    let _ = message.answer.send(Err(Error::io("cancel the run")(unwritable)));
                }
                None => return Left::Settled,
            },
            // The next start recovers it.
            () = shared.stopping.cancelled() => return Left::Settled,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_AFTER_AT_MOST),
        }
    }
    Left::Settled
}

/// Whether other runs may well be logged: neither the store nor room is missing.
fn of_the_run_alone(error: &Error) -> bool {
    let of_the_run =
        matches!(error, Error::Io { .. } | Error::Corrupt { .. } | Error::Damaged { .. } | Error::FilesGone { .. });
    // Races that are always lost are those for a log whose row does not fit it.
    (of_the_run || lost_race(error)) && Shortage::behind(error).is_none()
}

/// The same without a place among the runs that go on.
async fn fail_later(shared: Weak<Shared>, run: RunId, failure: Error) {
    loop {
        tokio::time::sleep(RETRY_AFTER_AT_MOST).await;
        let Some(shared) = shared.upgrade().filter(|shared| !shared.stopping.is_cancelled()) else { return };
        let _lock = shared.run_locks.lock(run).await;
        match give_up(&shared, run, &failure).await {
            Ok(()) => return,
            Err(again) if not_owner(&again) || never_fits(&again) => return,
            Err(again) => warn!(error = %chain(&again), "the run's failure could still not be logged; trying again"),
        }
    }
}

async fn drive(shared: &Arc<Shared>, run: RunId, mailbox: &mut Mailbox, is_named: &mut bool) -> Result<(), Error> {
    let mut journal = shared.journal(run).await?;
    if !std::mem::replace(is_named, true) {
        // Once: a span keeps all that is recorded.
        Span::current().record("request.id", display(journal.state().request_id));
    }
    if journal.state().status() != Status::Queued || journal.state().awaiting_upload {
        return Ok(());
    }
    // In one queue for several services, equal runs go one after the other: the first one's result may be there.
    if shared.member.is_some()
        && let Some(wanted) = Wanted::of(journal.state())
        && finish_from_cache(shared, journal.state(), &wanted).await?
    {
        return Ok(());
    }
    let prepared = match prepare(shared, journal.state()).await? {
        Ok(prepared) => prepared,
        Err(error) => {
            debug!(code = error.code, "the run cannot start");
            return at_rest::reject(shared, &mut journal, error).await;
        }
    };
    let Prepared { start, skill, skill_place, script, mut from, result_before, mut dependencies, making } = prepared;
    let Start { mut stage, shown_argv, engine_version, parser_version, mut isolation, passed, mut warnings } = start;
    let resources = process::resources_of(shared, &skill);
    let installer = making.as_ref().and_then(|making| making.sandbox.as_ref());
    warnings.extend(confine_installer::network_not_enforced(installer));
    let first = making.as_ref().unwrap_or(&stage).starting();
    // Packages are installed for all runs, whatever the skill asks for its own.
    let first_resources = if making.is_some() { process::most_resources(shared) } else { resources };
    let mut process = match begin(shared, run, first, first_resources).await {
        Ok(process) => process,
        Err(error) => return at_rest::reject(shared, &mut journal, error).await,
    };
    let pid = process.pid();
    // Without a sandbox, scripts that run behind the engine see the machine's.
    if isolation.tier == Tier::ProcessTree && process.has_own_tmp() && !skill.manifest.has_scripts() {
        isolation.parts.push(Part::OwnTmp);
    }
    if process.has_control_group() {
        isolation.parts.push(Part::ControlGroup);
    }
    let start = Command::StartTurn {
        command: shown_argv,
        pid,
        engine_version,
        parser_version: parser_version.to_owned(),
        isolation: Isolation::Told(isolation),
        limits: Some(resources),
        passed,
    };
    let started = match &shared.member {
        // It was taken with a lease that is lost; without an owner its start would be taken for that of a dead service.
        Some(member) if !member.may_work_on(run) => Err(store::Error::NotOwner.into()),
        Some(_) | None => journal.commit(start).await,
    };
    if let Err(error) = started {
        let paths = shared.layout.run(run);
        undo_start(
            shared,
            process,
            [(paths.file(RunFile::Stdout), from.stdout), (paths.file(RunFile::Stderr), from.stderr)],
        )
        .await;
        return Err(error);
    }
    info!(engine = journal.state().engine, turn = journal.state().turns, pid, "run started");
    if !warnings.is_empty()
        && let Err(error) = journal.commit(Command::Record(warnings.into_iter().map(warned).collect())).await
    {
        end(process).await;
        return Err(error);
    }
    let mut facts = Vec::new();
    if let Some(making) = making {
        let installing = dependencies.install(shared, &mut journal, mailbox, process, making, from);
        let (installed, outcome) = installing.await?;
        let begun = match outcome {
            Ok(()) => begin(shared, run, stage.starting(), resources).await,
            Err(error) => Err(error),
        };
        match begun {
            Ok(begun) => process = begun,
            Err(error) => {
                let turn = Turn {
                    shared,
                    journal: &mut journal,
                    mailbox,
                    skill,
                    skill_place,
                    result_before,
                    deadline: Deadline::after(Duration::ZERO),
                    facts,
                    stop: None,
                    ended: installed.ended.clone(),
                    secrets: Vec::new(),
                    _dependencies: dependencies,
                };
                return conclude_unbegun(turn, installed, error).await;
            }
        }
        from = Coverage { stdout: installed.ended.stdout.bytes, stderr: installed.ended.stderr.bytes };
        facts = installed.facts;
    }
    // The engine's time begins when its start is on record.
    let deadline = Deadline::after(Duration::from_secs(journal.state().options.hard_timeout_seconds));
    let (home, secrets) = (stage.home.take(), stage.launch.secrets.clone());
    let attempt = process::attempt(shared, journal.state(), process, stage, deadline, from, mailbox);
    let watched = attempt.watch(&mut journal, facts).await?;
    process::settle(shared, run, home).await;
    debug!(exit = ?watched.process.exit, stopped = watched.process.stop.is_some(), "engine ended");
    let turn = Turn {
        shared,
        journal: &mut journal,
        mailbox,
        skill,
        skill_place,
        result_before,
        deadline,
        facts: Vec::new(),
        stop: watched.process.stop.clone(),
        ended: watched.ended.clone(),
        secrets,
        _dependencies: dependencies,
    };
    conclude(turn, watched, script).await
}

/// Makes a process of the run; the error is the run's.
async fn begin(
    shared: &Shared,
    run: RunId,
    stage: Starting<'_>,
    resources: ResourceLimits,
) -> Result<supervisor::Process, RunError> {
    let started = process::start(shared, run, stage, resources).await;
    started.map_err(|failure| shared.naming_the_disk(process::not_started(&stage.program(), &failure)))
}

/// The engine's start could not be logged (a cancel came first): it never happened, so nothing of it may stay.
/// What earlier turns wrote stays.
async fn undo_start(shared: &Shared, mut process: supervisor::Process, begins: [(PathBuf, u64); 2]) {
    process.never_begin();
    end(process).await;
    let undo = move || {
        for (log, from) in begins {
            let _ = if from == 0 { files::remove_file(&log) } else { files::cut(&log, from) };
        }
    };
    let _ = shared.blocking.run("undo the start of an engine", undo).await;
}

/// The runner itself failed: the run fails with what can still be said.
pub(crate) async fn give_up(shared: &Arc<Shared>, run: RunId, failure: &Error) -> Result<(), Error> {
    let mut journal = shared.journal(run).await?;
    let error = match failure.code() {
        code @ (ErrorCode::ResourceLimitExceeded | ErrorCode::InsufficientStorage) => {
            RunError::new(code, format!("{failure}: {}", failure.told(|hint| hint.api)))
        }
        _ => RunError::new(ErrorCode::Internal, format!("the runner failed: {failure}")),
    };
    let error = shared.naming_the_disk(error);
    let command = match journal.state().status() {
        Status::Queued => Command::Reject { error },
        Status::Running => {
            record_uncovered(shared, &mut journal).await?;
            Command::EndTurn { facts: Vec::new(), conclusion: Conclusion::Failed(error) }
        }
        Status::WaitingUser | Status::Succeeded | Status::Failed | Status::Canceled => return Ok(()),
    };
    warn!(run.id = %run, "failing the run");
    at_rest::commit(shared, &mut journal, command).await
}

/// Logs raw output that reached its file and not the log. Each piece is an append of its own, so that it fits beside the longest row
/// and however much there is; if one does not, the run ends without it.
pub(crate) async fn record_uncovered(shared: &Arc<Shared>, journal: &mut Journal) -> Result<(), Error> {
    let run = journal.state().run_id;
    let covered = Coverage::of(&shared.log, run).await?;
    let paths = shared.layout.run(run);
    let open = move || {
        // Nobody has looked at what the engine left in the place of its logs: a link leads to the files of others.
        workspace::reclaim(&paths)?;
        covered.rest(&paths)
    };
    let mut rest = shared.blocking.run("open the run's logs", open).await??;
    loop {
        let read = move || {
            let next = rest.next();
            (rest, next)
        };
        let (left, next) = shared.blocking.run("read the run's logs", read).await?;
        let (facts, pieces) = next?;
        // Whoever goes on with the run elsewhere has the bytes of every event that is logged here.
        pieces.iter().for_each(|piece| journal.add_raw(piece.stream, piece.from, &piece.bytes));
        if facts.is_empty() {
            return Ok(());
        }
        for fact in facts {
            match journal.commit(Command::Record(vec![fact])).await {
                Err(error) if never_fits(&error) => {
                    error!(run.id = %run, error = %chain(&error), "the last output of a run cannot be logged; it ends without it");
                    return Ok(());
                }
                recorded => recorded?,
            }
        }
        rest = left;
    }
}
