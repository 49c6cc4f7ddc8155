//! The rules: a state and a command become events, or a refusal.

use super::cancel::cancel;
use super::decision::{Decision, finish};
use super::recover::reconcile;
use super::reply::{Answered, auto_decide, reply};
use super::turn;
use crate::domain::command::{Command, LastFiles, Refusal};
use crate::domain::ending::ending;
use crate::domain::event::{CacheHit, CancelRequested, Event, TurnStarted, Uploaded};
use crate::domain::fact::Fact;
use crate::domain::state::RunState;
use crate::domain::statechart::{Status, Trigger};
use crate::domain::time::Timestamp;

/// What a command means for a run, which is `None` before its creation. The last files of a run must be on disk before
/// a command that ends it; see [`ending`].
///
/// ```
/// use skill_runner::domain::command::{Command, Refusal};
/// use skill_runner::domain::decide;
/// use skill_runner::domain::time::Timestamp;
///
/// let cancel = Command::Cancel { requested_by: "client".into(), reason: "no longer needed".into() };
/// let decision = decide(None, cancel, None, Timestamp::from_micros(0));
/// assert!(matches!(decision, Err(Refusal::NotCreated)));
/// ```
pub fn decide(
    run: Option<&RunState>,
    command: Command,
    last_files: Option<LastFiles>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    match (run, command) {
        (None, Command::Create(started)) => Ok(Decision::of(vec![Fact::own(Event::Started(started))])),
        (None, _) => Err(Refusal::NotCreated),
        (Some(run), command) => decide_for(run, command, last_files, now),
    }
}

fn decide_for(
    run: &RunState,
    command: Command,
    last_files: Option<LastFiles>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let status = run.status();
    // A reply has error codes of its own, and a repeated reply gets the first answer, even after the run has ended.
    if status.is_final() && !matches!(&command, Command::Reply { .. }) {
        return match command {
            // A final run does not change.
            Command::Reconcile { .. } => Ok(Decision::default()),
            _ => Err(Refusal::RunFinal { status }),
        };
    }
    let end = ending(run, &command);
    match command {
        Command::Create(_) => Err(Refusal::AlreadyCreated),
        Command::Upload { files, manifest_sha256, cache_key, package, warnings } => {
            if !run.awaiting_upload {
                return Err(Refusal::AlreadyUploaded);
            }
            let uploaded = Uploaded { files, manifest_sha256, cache_key, package };
            let uploaded = Fact::own(Event::Uploaded(Box::new(uploaded)));
            let warned = warnings.into_iter().map(|warning| Fact::own(Event::Warned(Box::new(warning))));
            Ok(Decision::of(std::iter::once(uploaded).chain(warned).collect()))
        }
        Command::TakeFromCache { source, cache_key } => {
            let hit = Fact::own(Event::CacheHit(CacheHit { source_run_id: source, cache_key }));
            finish(run, vec![hit], end, Trigger::RunCacheHit, last_files, now)
        }
        Command::StartTurn { command, pid, engine_version, parser_version, isolation, limits, passed } => {
            let attempt = run.turns + 1;
            let resumed_from = if run.turns == 0 { None } else { run.session_handle.clone() };
            let started = TurnStarted {
                attempt,
                command,
                pid,
                engine_version,
                parser_version,
                isolation,
                limits,
                resumed_from,
                passed,
            };
            turn::start(run, started, now)
        }
        Command::Record(facts) => match status {
            Status::Running => Ok(Decision::of(facts)),
            _ => Err(Refusal::Illegal { status }),
        },
        Command::EndTurn { facts, conclusion } => turn::end(run, facts, conclusion, end, last_files, now),
        Command::Reject { .. } => finish(run, Vec::new(), end, Trigger::RunRejected, last_files, now),
        Command::Reply { interaction_id, response, idempotency_key, requested_by } => {
            reply(run, Answered { interaction_id, response, idempotency_key, requested_by }, now)
        }
        Command::AutoDecide => auto_decide(run, now),
        Command::Cancel { requested_by, reason } => {
            cancel(run, CancelRequested { requested_by, reason }, end, last_files, now)
        }
        // What becomes of queued runs is part of `end`.
        Command::Reconcile { facts, restart_queued: _ } => reconcile(run, facts, end, last_files, now),
    }
}
