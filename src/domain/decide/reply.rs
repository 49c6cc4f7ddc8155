//! The answer to a question, by a user or by the deadline.

use serde_json::Value;

use super::decision::{Decision, change};
use crate::domain::cache_key::{canonical, sha256_hex};
use crate::domain::command::Refusal;
use crate::domain::event::{AutoDecideTimeout, AutoDecided, Event, ReplyAccepted, UserReply};
use crate::domain::fact::Fact;
use crate::domain::interaction::InteractionId;
use crate::domain::request::ExecutionMode;
use crate::domain::state::{Phase, RunState};
use crate::domain::statechart::Trigger;
use crate::domain::time::Timestamp;

/// Longest preview of a reply, in characters.
const PREVIEW_CHARS: usize = 200;

/// A reply, as [`crate::domain::command::Command::Reply`] brings it.
pub(super) struct Answered {
    pub(super) interaction_id: InteractionId,
    pub(super) response: Value,
    pub(super) idempotency_key: Option<String>,
    pub(super) requested_by: Option<String>,
}

pub(super) fn reply(run: &RunState, answered: Answered, now: Timestamp) -> Result<Decision, Refusal> {
    let Answered { interaction_id, response, idempotency_key, requested_by } = answered;
    if run.options.execution_mode != ExecutionMode::Interactive {
        return Err(Refusal::NotInteractive);
    }
    let earlier =
        idempotency_key.as_ref().and_then(|key| run.replies.iter().find(|reply| reply.idempotency_key == *key));
    if let Some(earlier) = earlier {
        // The same key and body get the first answer again, at any time; nothing is logged a second time.
        let same = earlier.interaction_id == interaction_id
            && earlier.response_sha256 == sha256_hex(canonical(&response).as_bytes());
        return if same { Ok(Decision::default()) } else { Err(Refusal::IdempotencyConflict) };
    }
    let Phase::WaitingUser(pending) = &run.phase else {
        return Err(Refusal::InteractionNotPending { status: run.status() });
    };
    let open = pending.interaction.interaction_id;
    if open != interaction_id {
        return Err(Refusal::InteractionStale { given: interaction_id, open });
    }
    let flaws = pending.interaction.flaws(&response);
    if !flaws.is_empty() {
        return Err(Refusal::ResponseInvalid { id: open, flaws });
    }
    let shown = match &response {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Ok(Decision::of(vec![
        Fact::own(Event::ReplyAccepted(Box::new(ReplyAccepted {
            interaction_id,
            resolution_mode: UserReply::UserReply,
            accepted_at: now,
            response,
            response_preview: shown.chars().take(PREVIEW_CHARS).collect(),
            idempotency_key,
            requested_by,
        }))),
        change(run, Trigger::ReplyAccepted, now, None)?,
    ]))
}

pub(super) fn auto_decide(run: &RunState, now: Timestamp) -> Result<Decision, Refusal> {
    let Phase::WaitingUser(pending) = &run.phase else {
        return Err(Refusal::InteractionNotPending { status: run.status() });
    };
    let timeout_sec = run.options.interactive_reply_timeout_sec;
    let due = pending.asked_at.plus_seconds(timeout_sec) <= now;
    if !run.decides_without_user() || !due {
        return Err(Refusal::Illegal { status: run.status() });
    }
    Ok(Decision::of(vec![
        Fact::own(Event::AutoDecided(AutoDecided {
            interaction_id: pending.interaction.interaction_id,
            resolution_mode: AutoDecideTimeout::AutoDecideTimeout,
            timeout_sec,
            policy: pending.interaction.default_decision_policy.clone(),
            accepted_at: now,
        })),
        change(run, Trigger::AutoDecideTimeout, now, None)?,
    ]))
}
