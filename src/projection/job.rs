//! The job: a run as `GET /v1/jobs/{id}` shows it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::domain::event::{RecoveryState, is_usual};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::integrity::Integrity;
use crate::domain::interaction::InteractionId;
use crate::domain::isolation::Isolation;
use crate::domain::outcome::{RunError, Usage, Warning};
use crate::domain::request::ExecutionMode;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;

/// A run's status and summary.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// The client's name for it.
    pub(crate) request_id: RequestId,
    pub run_id: RunId,
    pub status: Status,
    pub(crate) skill_id: String,
    /// Which version of it.
    pub(crate) skill_version: String,
    pub(crate) engine: String,
    /// What the engine calls itself, once it was started.
    pub(crate) engine_version: Option<String>,
    /// The tier of isolation in force, once it was started.
    pub(crate) isolation: Option<Isolation>,
    /// The model its engine was told to use; before that, the one that was asked for.
    pub(crate) model: Option<String>,
    /// How hard the model was told to think.
    pub(crate) effort: Option<String>,
    /// The rest of what its engine was told.
    pub(crate) engine_options: Map<String, Value>,
    /// With or without questions.
    pub(crate) execution_mode: ExecutionMode,
    /// Whether it goes before or behind others in the queue.
    #[serde(skip_serializing_if = "is_usual")]
    pub(crate) priority: i8,
    /// When it was created.
    pub(crate) created_at: Timestamp,
    /// When its last event happened.
    pub(crate) updated_at: Timestamp,
    /// Turn of the engine.
    pub(crate) attempt: u32,
    /// How often its turn was begun again.
    pub(crate) retries: u32,
    /// When its turn is begun again, while it waits for that.
    pub(crate) retry_at: Option<Timestamp>,
    /// Last event: the cursor of a reader who has seen everything.
    pub(crate) head_seq: Seq,
    /// Whether it waits for files.
    pub(crate) awaiting_upload: bool,
    /// Whether its result came from an equal run.
    pub(crate) cache_hit: bool,
    pub(crate) pending_interaction_id: Option<InteractionId>,
    pub(crate) interaction_count: u64,
    /// What a restart did to it.
    pub(crate) recovery_state: RecoveryState,
    pub(crate) recovered_at: Option<Timestamp>,
    pub(crate) recovery_reason: Option<String>,
    /// Questions the deadline decided.
    pub(crate) auto_decision_count: u64,
    /// When the last of them was.
    pub(crate) last_auto_decision_at: Option<Timestamp>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) error: Option<RunError>,
    pub(crate) usage: Usage,
    /// The files it waits for.
    pub(crate) awaiting_files: Vec<String>,
    /// What the client finds it by.
    pub(crate) labels: BTreeMap<String, String>,
    /// What the client keeps with it; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Map<String, Value>>,
    /// How many runs are to start before it; `null` when it is not in the queue.
    pub(crate) queue_position: Option<usize>,
    /// The damage that was found in its stored files; `null` where none is known.
    pub(crate) integrity: Option<Integrity>,
}

/// The job of a run.
pub fn job(run: &RunState, queue_position: Option<usize>) -> Job {
    let passed = run.turn.as_ref().map(|turn| &turn.passed);
    let awaiting = run.awaiting_upload && !run.status().is_final();
    Job {
        request_id: run.request_id,
        run_id: run.run_id,
        status: run.status(),
        skill_id: run.skill.id.clone(),
        skill_version: run.skill.version.clone(),
        engine: run.engine.clone(),
        engine_version: run.turn.as_ref().map(|turn| turn.engine_version.clone()),
        isolation: run.turn.as_ref().map(|turn| turn.isolation.clone()),
        model: passed.and_then(|passed| passed.model.clone()).or_else(|| run.model.clone()),
        effort: passed.and_then(|passed| passed.effort.clone()),
        engine_options: passed.map(|passed| passed.options.clone()).unwrap_or_default(),
        execution_mode: run.options.execution_mode,
        created_at: run.created_at,
        updated_at: run.updated_at,
        attempt: run.attempt,
        retries: run.retries,
        retry_at: run.retry_at,
        head_seq: run.head_seq,
        awaiting_upload: awaiting,
        cache_hit: run.cache_hit,
        pending_interaction_id: run.pending().as_ref().map(|pending| pending.interaction.interaction_id),
        interaction_count: run.interaction_count,
        recovery_state: run.recovery_state,
        recovered_at: run.recovered_at,
        recovery_reason: run.recovery_reason.clone(),
        auto_decision_count: run.auto_decision_count,
        last_auto_decision_at: run.last_auto_decision_at,
        warnings: run.warnings.clone(),
        error: run.error.clone(),
        usage: run.usage,
        awaiting_files: if awaiting { run.awaiting_files.clone() } else { Vec::new() },
        labels: run.labels.clone(),
        priority: run.priority,
        metadata: None,
        queue_position,
        integrity: None,
    }
}
