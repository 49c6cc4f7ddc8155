//! A run's state: the fold of its events.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cache_key::{canonical, sha256_hex};
use super::event::{Event, RecoveryState, Started, is_usual};
use super::ids::{RequestId, RunId, Seq};
use super::interaction::{Interaction, InteractionId};
use super::json_text::json_length;
use super::outcome::{RunError, Usage, Warning};
use super::request::{ExecutionMode, Passed, RuntimeOptions, SkillRef, WAIT_MAX_SECONDS};
use super::statechart::Status;
use super::time::Timestamp;
use crate::domain::isolation::Isolation;

/// Most warnings kept in the state; the log has them all.
pub(crate) const WARNINGS_KEPT: usize = 100;

/// How much of the state the replies may take; of more, the last ones are kept. A key of one that is forgotten is refused as late.
const REPLIES_KEPT_BYTES: usize = 64 * 1024;

/// A question that waits for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    pub interaction: Interaction,
    /// When it was asked; its deadline counts from here.
    pub(crate) asked_at: Timestamp,
}

/// A reply that was accepted, so that its repeat is recognised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AcceptedReply {
    pub(crate) interaction_id: InteractionId,
    pub(crate) idempotency_key: String,
    /// Hash of the answer: the answer itself may be long, and the row is written with every event.
    pub(crate) response_sha256: String,
}

impl AcceptedReply {
    /// How many bytes of a row it takes, about.
    fn row_bytes(&self) -> usize {
        json_length(&self.idempotency_key) + 160
    }
}

/// The engine's process of the turn under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) pid: u32,
    /// What the engine calls itself.
    pub(crate) engine_version: String,
    /// The tier of isolation in force.
    pub(crate) isolation: Isolation,
    /// What the engine was told besides its prompt. Rows of older versions do not say.
    #[serde(flatten)]
    pub(crate) passed: Passed,
}

/// The status of a run, with the data that exists only in that status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Waits for its turn.
    Queued,
    /// An engine is at work.
    Running,
    /// The engine has ended its turn with this question; the change of state follows in the same batch.
    Asking(Pending),
    /// This question is open.
    WaitingUser(Pending),
    /// Ended with a result.
    Succeeded,
    Failed,
    Canceled,
}

impl Phase {
    /// The status of this phase.
    pub(crate) fn status(&self) -> Status {
        match self {
            Phase::Queued => Status::Queued,
            Phase::Running | Phase::Asking(_) => Status::Running,
            Phase::WaitingUser(_) => Status::WaitingUser,
            Phase::Succeeded => Status::Succeeded,
            Phase::Failed => Status::Failed,
            Phase::Canceled => Status::Canceled,
        }
    }

    /// The phase after a change of state. A change to `waiting_user` without a question changes nothing here; the log
    /// checker reports it.
    #[must_use]
    fn moved_to(self, status: Status) -> Self {
        match (status, self) {
            (Status::WaitingUser, Phase::Asking(pending) | Phase::WaitingUser(pending)) => Phase::WaitingUser(pending),
            (Status::WaitingUser, other) => other,
            (Status::Queued, _) => Phase::Queued,
            (Status::Running, _) => Phase::Running,
            (Status::Succeeded, _) => Phase::Succeeded,
            (Status::Failed, _) => Phase::Failed,
            (Status::Canceled, _) => Phase::Canceled,
        }
    }
}

/// A run, folded from its log. Large things (inputs, texts, artifacts) stay in the log and the run's folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    pub run_id: RunId,
    /// The client's name for it.
    pub(crate) request_id: RequestId,
    pub(crate) skill: SkillRef,
    pub(crate) engine: String,
    pub(crate) model: Option<String>,
    pub options: RuntimeOptions,
    #[serde(rename = "status")]
    pub(crate) phase: Phase,
    /// Whether it waits for an upload before it can be queued.
    pub awaiting_upload: bool,
    /// Whether its result came from an equal run.
    pub(crate) cache_hit: bool,
    /// The run it came from. Rows of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cached_from: Option<RunId>,
    /// Its cache key, once known.
    pub(crate) cache_key: Option<String>,
    /// When it was created.
    pub(crate) created_at: Timestamp,
    /// When its last event happened.
    pub(crate) updated_at: Timestamp,
    pub head_seq: Seq,
    /// Which turn the last event belongs to.
    pub(crate) attempt: u32,
    /// Number of the last event within its turn.
    pub(crate) local_seq: u64,
    pub(crate) turns: u32,
    /// The turn under way or the last one.
    pub(crate) turn: Option<Turn>,
    pub(crate) session_handle: Option<String>,
    pub(crate) interaction_count: u64,
    /// Replies accepted under a key.
    pub(crate) replies: Vec<AcceptedReply>,
    /// The user's answer that the next turn is told.
    pub(crate) answer: Option<Value>,
    /// Whether that answer is `null`, which a row cannot tell from none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) answered_null: bool,
    /// Questions the deadline decided.
    pub(crate) auto_decision_count: u64,
    /// When the last of them was.
    pub(crate) last_auto_decision_at: Option<Timestamp>,
    /// Whether somebody asked for the run to stop.
    pub(crate) cancel_requested: bool,
    /// What a restart did to it.
    pub recovery_state: RecoveryState,
    pub(crate) recovered_at: Option<Timestamp>,
    pub(crate) recovery_reason: Option<String>,
    pub(crate) warnings: Vec<Warning>,
    pub error: Option<RunError>,
    pub(crate) usage: Usage,
    /// Where its result is.
    pub(crate) result_path: Option<String>,
    /// Hash of the idempotency key it was created with.
    pub(crate) idempotency_sha256: Option<String>,
    /// Whether its skill is a package of its own.
    #[serde(default)]
    pub(crate) temporary: bool,
    /// What the client finds it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    /// The named token that it was created with: who shares the queue with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requested_by: Option<String>,
    /// Whether it goes before or behind others in the queue.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(crate) priority: i8,
    /// Whether its first event has metadata, which may be too long for the row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_metadata: bool,
    /// The files it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) awaiting_files: Vec<String>,
    /// How often its first turn was begun again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) retries: u32,
    /// When its turn may be begun again, while it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_at: Option<Timestamp>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How many questions of a run can be decided without a person. The next one waits, so that an engine that always asks does not go on
/// for ever.
const DECIDED_WITHOUT_USER_MAX: u64 = 100;

impl RunState {
    /// Whether the question under way is decided without a person when its time is over.
    pub(crate) fn decides_without_user(&self) -> bool {
        self.options.interactive_auto_reply && self.interaction_count <= DECIDED_WITHOUT_USER_MAX
    }

    /// The state after a run's first event.
    pub(crate) fn open(run_id: RunId, started: &Started, at: Timestamp) -> Self {
        Self {
            run_id,
            request_id: started.request_id,
            skill: started.skill.clone(),
            engine: started.engine.clone(),
            model: started.model.clone(),
            options: started.runtime_options.clone(),
            phase: Phase::Queued,
            awaiting_upload: started.awaiting_upload,
            cache_hit: false,
            cached_from: None,
            cache_key: started.cache_key.clone(),
            created_at: at,
            updated_at: at,
            head_seq: Seq(1),
            attempt: 1,
            local_seq: 1,
            turns: 0,
            turn: None,
            session_handle: None,
            interaction_count: 0,
            replies: Vec::new(),
            answer: None,
            answered_null: false,
            auto_decision_count: 0,
            last_auto_decision_at: None,
            cancel_requested: false,
            recovery_state: RecoveryState::None,
            recovered_at: None,
            recovery_reason: None,
            warnings: Vec::new(),
            error: None,
            usage: Usage::default(),
            result_path: None,
            idempotency_sha256: started.idempotency_sha256.clone(),
            temporary: started.temporary,
            labels: started.labels.clone(),
            requested_by: started.requested_by.clone(),
            priority: started.priority,
            has_metadata: started.metadata.is_some(),
            awaiting_files: started.awaiting_files.clone(),
            retries: 0,
            retry_at: None,
        }
    }

    /// Whether it waits for an answer, and its log does not say that the service was restarted meanwhile.
    pub(crate) fn is_restart_unnoted(&self) -> bool {
        self.pending().is_some_and(|pending| self.recovered_at.is_none_or(|at| at < pending.asked_at))
    }

    /// The status of its phase.
    pub fn status(&self) -> Status {
        self.phase.status()
    }

    /// Whether a turn that its model's service refused is begun again, after so many seconds if the service asks for them. One that
    /// was told an answer is not: the engine may have heard it.
    pub(crate) fn may_retry(&self, asked: Option<u64>) -> bool {
        let allowed = self.options.retry.is_some_and(|retry| self.retries < retry.times);
        allowed && self.interaction_count == 0 && asked.is_none_or(|seconds| seconds <= WAIT_MAX_SECONDS)
    }

    /// Whether its next turn goes on with the session of the turn before, and does not begin anew.
    pub(crate) fn resumes(&self) -> bool {
        self.turns > self.retries
    }

    /// The question that was asked and is not answered.
    pub fn pending(&self) -> Option<&Pending> {
        match &self.phase {
            Phase::Asking(pending) | Phase::WaitingUser(pending) => Some(pending),
            Phase::Queued | Phase::Running | Phase::Succeeded | Phase::Failed | Phase::Canceled => None,
        }
    }

    /// The state after one more event.
    pub(crate) fn apply(&mut self, event: &Event, at: Timestamp) {
        self.number(event);
        self.updated_at = at;
        match event {
            Event::Started(_) => {}
            Event::Uploaded(uploaded) => {
                self.awaiting_upload = false;
                self.awaiting_files.clear();
                self.cache_key = Some(uploaded.cache_key.clone());
                if let Some(package) = &uploaded.package {
                    self.skill = package.skill.clone();
                    self.engine = package.engine.clone();
                    self.options = package.runtime_options.clone();
                }
            }
            Event::CacheHit(hit) => {
                self.cache_hit = true;
                self.cached_from = Some(hit.source_run_id);
                self.cache_key = Some(hit.cache_key.clone());
            }
            Event::StateChanged(change) => {
                self.phase = std::mem::replace(&mut self.phase, Phase::Queued).moved_to(change.to);
            }
            Event::TurnStarted(turn) => {
                self.turns = turn.attempt;
                self.retry_at = None;
                self.answer = None;
                self.answered_null = false;
                // The service died while the run took an equal run's result; now its own engine runs instead.
                self.cache_hit = false;
                self.cached_from = None;
                self.turn = Some(Turn {
                    pid: turn.pid,
                    engine_version: turn.engine_version.clone(),
                    isolation: turn.isolation.clone(),
                    passed: turn.passed.clone(),
                });
            }
            Event::SessionBound(bound) => self.session_handle = Some(bound.handle.clone()),
            Event::UsageReported(usage) => self.usage = self.usage.plus(*usage),
            Event::InputRequired(interaction) => {
                self.interaction_count += 1;
                self.phase = Phase::Asking(Pending { interaction: *interaction.clone(), asked_at: at });
            }
            Event::ReplyAccepted(reply) => {
                self.answered_null = reply.response.is_null();
                self.answer = Some(reply.response.clone()).filter(|answer| !answer.is_null());
                self.replies.extend(reply.idempotency_key.clone().map(|idempotency_key| AcceptedReply {
                    interaction_id: reply.interaction_id,
                    idempotency_key,
                    response_sha256: sha256_hex(canonical(&reply.response).as_bytes()),
                }));
                self.forget_old_replies();
            }
            Event::RetryScheduled(scheduled) => {
                self.retries = scheduled.retry;
                self.retry_at = Some(scheduled.not_before);
                // The turn to come begins a session of its own.
                self.session_handle = None;
            }
            Event::AutoDecided(decided) => {
                self.auto_decision_count += 1;
                self.last_auto_decision_at = Some(decided.accepted_at);
            }
            Event::Warned(warning) => {
                if self.warnings.len() < WARNINGS_KEPT {
                    self.warnings.push(warning.in_brief());
                }
            }
            Event::CancelRequested(_) => self.cancel_requested = true,
            Event::Recovered(recovered) => {
                self.recovery_state = recovered.recovery_state;
                self.recovered_at = Some(recovered.recovered_at);
                self.recovery_reason = Some(recovered.recovery_reason.clone());
            }
            Event::Completed(completed) => self.result_path = Some(completed.result_path.clone()),
            Event::Failed(failed) => self.error = Some(failed.error.clone()),
            Event::AssistantMessage(_)
            | Event::AssistantReasoning(_)
            | Event::ToolCall(_)
            | Event::CommandExecution(_)
            | Event::Progress(_)
            | Event::RawStdout(_)
            | Event::RawStderr(_)
            | Event::Normalized(_)
            | Event::ArtifactIndexed(_) => {}
        }
    }

    /// A run may ask without end, and its row is written with every event.
    fn forget_old_replies(&mut self) {
        let mut left = REPLIES_KEPT_BYTES;
        let fits = |reply: &&AcceptedReply| match left.checked_sub(reply.row_bytes()) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let kept = self.replies.iter().rev().take_while(fits).count();
        self.replies.drain(..self.replies.len() - kept);
    }

    /// The key under which this run may share results with equal runs.
    pub(crate) fn shared_key(&self) -> Option<&str> {
        let shares = self.options.execution_mode == ExecutionMode::Auto && !self.options.no_cache;
        self.cache_key.as_deref().filter(|_| shares && !self.awaiting_upload)
    }

    /// Count an event of a type this version does not know: it takes a position in the log but changes nothing else.
    pub(crate) fn apply_unknown(&mut self, at: Timestamp) {
        self.head_seq = self.head_seq.next();
        self.local_seq = self.local_seq.saturating_add(1);
        self.updated_at = at;
    }

    /// The change queued → running opens the next attempt; attempt 1 is open from the first event on.
    fn number(&mut self, event: &Event) {
        self.head_seq = self.head_seq.next();
        self.local_seq = self.local_seq.saturating_add(1);
        let starts_turn = matches!(event, Event::StateChanged(change) if change.to == Status::Running);
        if starts_turn && self.turns > 0 {
            self.attempt += 1;
            self.local_seq = 1;
        }
    }
}
