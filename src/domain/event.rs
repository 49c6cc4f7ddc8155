//! The typed events of a run's log: one fact, one event, one FCMP type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::artifact::ArtifactEntry;
use super::ids::{RequestId, RunId};
use super::interaction::{Interaction, InteractionId};
use super::outcome::{Completion, Proof, RunError, Usage, Warning};
use super::request::{Caller, Defaults, ExecutionMode, Passed, RuntimeOptions, SkillRef, UploadedFile};
use super::resources::ResourceLimits;
use super::statechart::{Status, Trigger};
use super::time::Timestamp;
use crate::domain::isolation::Isolation;

pub(crate) use super::validation::{NormalizationLevel, NormalizationStep, Normalized, ValidationError};

/// Most characters of raw engine output that one event carries.
pub(crate) const RAW_TEXT_MAX: usize = 64 * 1024;

macro_rules! events {
    ($( $(#[$doc:meta])* $variant:ident($data:ty) $kind:literal $type:literal; )*) => {
        /// A fact of a run, as the log keeps it. What is long or comes seldom is in a box, so that thousands of lines fit little memory.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event { $( $(#[$doc])* $variant($data), )* }

        impl Event {
            /// Every FCMP type with its log kind.
            #[cfg(test)]
            pub(crate) const TYPES: &'static [(&'static str, &'static str)] = &[ $( ($type, $kind), )* ];

            /// The FCMP `type`.
            pub fn type_name(&self) -> &'static str {
                match self { $( Event::$variant(_) => $type, )* }
            }

            /// The log kind (`meta.kind`).
            pub(crate) fn kind(&self) -> &'static str {
                match self { $( Event::$variant(_) => $kind, )* }
            }

            /// Write the event's `data` as JSON.
            pub fn write_data(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
                match self { $( Event::$variant(data) => serde_json::to_writer(out, data), )* }
            }

            /// Read an event from its type and the text of its data; `None` for a type this version does not know.
            pub(crate) fn read(type_name: &str, data: &str) -> Option<serde_json::Result<Event>> {
                match type_name {
                    $( $type => Some(serde_json::from_str(data).map(Event::$variant)), )*
                    _ => None,
                }
            }
        }
    };
}

events! {
    Started(Box<Started>) "created" "conversation.started";
    /// Its files are there.
    Uploaded(Box<Uploaded>) "uploaded" "input.uploaded";
    /// An equal run's result was taken.
    CacheHit(CacheHit) "cache_hit" "run.cache_hit";
    /// The state machine moved.
    StateChanged(StateChanged) "state_changed" "conversation.state.changed";
    /// An engine process was started.
    TurnStarted(Box<TurnStarted>) "turn_started" "turn.started";
    /// The engine named its session.
    SessionBound(SessionBound) "session_bound" "session.bound";
    /// The assistant said something.
    AssistantMessage(AssistantMessage) "engine_output" "assistant.message.final";
    AssistantReasoning(AssistantReasoning) "engine_output" "assistant.reasoning";
    /// The assistant used a tool.
    ToolCall(Box<ToolCall>) "engine_output" "assistant.tool_call";
    /// The assistant ran a command.
    CommandExecution(CommandExecution) "engine_output" "assistant.command_execution";
    /// How far the engine says it is.
    Progress(Progress) "engine_output" "run.progress";
    /// What the engine says it used.
    UsageReported(Usage) "engine_output" "usage.reported";
    /// Standard output no parser claimed.
    RawStdout(RawText) "engine_output" "raw.stdout";
    /// Standard error no parser claimed.
    RawStderr(RawText) "engine_output" "raw.stderr";
    /// The engine asks the user.
    InputRequired(Box<Interaction>) "interaction_pending" "user.input.required";
    /// A user's answer was accepted.
    ReplyAccepted(Box<ReplyAccepted>) "reply" "interaction.reply.accepted";
    /// The deadline passed and the policy answered.
    AutoDecided(AutoDecided) "auto_decided" "interaction.auto_decide.timeout";
    /// The turn is to be begun again, at this moment.
    RetryScheduled(Box<RetryScheduled>) "retry_scheduled" "run.retry.scheduled";
    /// The output went through validation.
    Normalized(Normalized) "normalized" "output.normalized";
    /// A file of the run was indexed.
    ArtifactIndexed(Box<ArtifactEntry>) "artifact_indexed" "artifact.indexed";
    /// Something worth knowing happened.
    Warned(Box<Warning>) "warning" "diagnostic.warning";
    /// Somebody asked for the run to stop.
    CancelRequested(CancelRequested) "cancel_requested" "run.cancel.requested";
    /// A restarted service took the run over.
    Recovered(Recovered) "recovered" "run.recovered";
    /// The run succeeded; nothing follows.
    Completed(Box<Completed>) "terminal" "conversation.completed";
    /// The run failed or was canceled; nothing follows.
    Failed(Box<Failed>) "terminal" "conversation.failed";
}

/// Most bytes of an event as it is written; what is longer was not written by this program.
pub(crate) const EVENT_MAX: u64 = 4 * 1024 * 1024;

const _: () = assert!(size_of::<Event>() <= 96);

impl Event {
    /// The proof in a run's last event.
    pub(crate) fn proof_mut(&mut self) -> Option<&mut Proof> {
        match self {
            Event::Completed(completed) => Some(&mut completed.proof),
            Event::Failed(failed) => Some(&mut failed.proof),
            _ => None,
        }
    }
}

/// Data of `conversation.started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The client's name for the run.
    pub request_id: RequestId,
    /// Which skill, and which content of it.
    pub(crate) skill: SkillRef,
    pub(crate) engine: String,
    /// The model asked for.
    pub(crate) model: Option<String>,
    /// With or without questions to the user.
    pub(crate) execution_mode: ExecutionMode,
    /// All options in force.
    pub(crate) runtime_options: RuntimeOptions,
    pub(crate) input: Map<String, Value>,
    pub(crate) parameter: Map<String, Value>,
    /// Whether the run waits for an upload before it is queued.
    pub(crate) awaiting_upload: bool,
    /// Hash of the client's idempotency key, when it gave one.
    pub(crate) idempotency_sha256: Option<String>,
    /// The run's cache key, when no upload is awaited that would be part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache_key: Option<String>,
    /// Hash of the engine configuration the client sent, which itself may hold secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) engine_config_sha256: Option<String>,
    /// Whether the skill is a package of this run alone, which comes with the upload.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) temporary: bool,
    /// What the client finds the run by, in lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    /// Whether it goes before or behind others in the queue.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(crate) priority: i8,
    /// What the client keeps with the run; the runner does not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Box<Map<String, Value>>>,
    /// Who the run is for, as its script is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<Box<Caller>>,
    /// The files that the run waits for; not known while its skill is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) awaiting_files: Vec<String>,
    /// What of input and parameter the client left out and the skill's schemas supplied.
    #[serde(default, skip_serializing_if = "Defaults::is_empty")]
    pub(crate) defaults: Box<Defaults>,
    /// The name of the token it was asked for with, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requested_by: Option<String>,
    /// The trace that the request belonged to, as its header `traceparent` said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<Box<str>>,
}

/// Whether there is nothing to say of a priority.
pub(crate) fn is_usual(priority: &i8) -> bool {
    *priority == 0
}

/// Data of `input.uploaded`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Uploaded {
    /// The files, by name.
    pub(crate) files: Vec<UploadedFile>,
    /// Hash of the list of files.
    pub(crate) manifest_sha256: String,
    /// The run's cache key.
    pub(crate) cache_key: String,
    /// The package that came with the files, for a run whose skill is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) package: Option<UploadedPackage>,
}

/// A skill that is one run's alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadedPackage {
    /// Its identity, known once the package is unpacked.
    pub(crate) skill: SkillRef,
    /// The engine chosen for it.
    pub(crate) engine: String,
    /// All options in force, with the skill's own defaults.
    pub(crate) runtime_options: RuntimeOptions,
    /// Hash of the configuration the client sent for that engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) engine_config_sha256: Option<String>,
    /// Hash of the archive.
    pub(crate) sha256: String,
    /// What the skill's schemas supply of input and parameter.
    #[serde(default, skip_serializing_if = "Defaults::is_empty")]
    pub(crate) defaults: Defaults,
}

impl Started {
    /// The first event as if the package had been known when the run was created.
    #[must_use]
    pub(crate) fn with_package(mut self, package: &UploadedPackage) -> Self {
        self.skill = package.skill.clone();
        self.engine = package.engine.clone();
        self.execution_mode = package.runtime_options.execution_mode;
        self.runtime_options = package.runtime_options.clone();
        self.engine_config_sha256 = package.engine_config_sha256.clone();
        package.defaults.fill(&mut self.input, &mut self.parameter);
        self.defaults = Box::new(package.defaults.clone());
        self
    }
}

/// Data of `run.cache_hit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheHit {
    /// The run whose result is taken.
    pub(crate) source_run_id: RunId,
    /// The key both share.
    pub(crate) cache_key: String,
}

/// Data of `conversation.state.changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateChanged {
    pub(crate) from: Status,
    pub(crate) to: Status,
    pub(crate) trigger: Trigger,
    pub(crate) updated_at: Timestamp,
    /// The question that is open after the change.
    pub(crate) pending_interaction_id: Option<InteractionId>,
}

/// Data of `turn.started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// Which turn of the engine: 1, 2, ….
    pub(crate) attempt: u32,
    /// Program and arguments, without secrets.
    pub(crate) command: Vec<String>,
    pub(crate) pid: u32,
    /// What the engine calls itself.
    pub(crate) engine_version: String,
    /// Which parser reads its output.
    pub(crate) parser_version: String,
    /// The tier of isolation in force.
    pub(crate) isolation: Isolation,
    /// What its processes may use of the machine. Logs of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<ResourceLimits>,
    /// The session this turn goes on with.
    pub(crate) resumed_from: Option<String>,
    /// What the engine was told besides its prompt.
    #[serde(flatten)]
    pub(crate) passed: Passed,
}

/// Data of `session.bound`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionBound {
    /// What sort of handle it is.
    pub handle_kind: String,
    /// The handle the engine can be resumed with.
    pub handle: String,
}

/// Data of `assistant.message.final`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The engine's name for the message.
    pub(crate) message_id: String,
    pub(crate) text: String,
}

/// Data of `assistant.reasoning`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssistantReasoning {
    pub(crate) text: String,
}

/// Data of `assistant.tool_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The engine's name for the call.
    pub(crate) call_id: String,
    pub(crate) tool: String,
    /// What it was given.
    pub(crate) input: Value,
    /// What it answered, cut to a bound.
    pub(crate) output: String,
    pub(crate) status: String,
}

/// Data of `assistant.command_execution`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandExecution {
    pub(crate) command: String,
    /// Its exit code, when the engine tells it.
    pub(crate) exit_code: Option<i64>,
    /// What it printed, cut to a bound.
    pub(crate) output: String,
    pub(crate) status: String,
}

/// Data of `run.progress`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// 0 to 100.
    pub(crate) percent: f64,
    /// What is being done.
    pub(crate) message: String,
}

/// Data of `raw.stdout` and `raw.stderr`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawText {
    /// The text; bytes that are not UTF-8 are shown as replacement characters.
    pub text: String,
}

/// Data of `interaction.reply.accepted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplyAccepted {
    pub(crate) interaction_id: InteractionId,
    /// How it was resolved.
    pub(crate) resolution_mode: UserReply,
    pub(crate) accepted_at: Timestamp,
    pub(crate) response: Value,
    /// The answer, short, for lists.
    pub(crate) response_preview: String,
    /// The client's key, so that a repeat is recognised.
    pub(crate) idempotency_key: Option<String>,
    /// The name of the token it came with, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requested_by: Option<String>,
}

/// The one resolution mode of an accepted reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UserReply {
    UserReply,
}

/// Data of `interaction.auto_decide.timeout`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AutoDecided {
    pub(crate) interaction_id: InteractionId,
    /// How it was resolved.
    pub(crate) resolution_mode: AutoDecideTimeout,
    /// How long the question was open.
    pub(crate) timeout_sec: u64,
    /// The policy that decided.
    pub(crate) policy: String,
    pub(crate) accepted_at: Timestamp,
}

/// The one resolution mode of an automatic decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AutoDecideTimeout {
    AutoDecideTimeout,
}

/// Data of `run.cancel.requested`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CancelRequested {
    pub(crate) requested_by: String,
    pub(crate) reason: String,
}

/// Data of `run.retry.scheduled`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryScheduled {
    /// Which retry it is: 1, 2, ….
    pub(crate) retry: u32,
    /// How many there may be.
    pub(crate) times: u32,
    /// When the turn is begun again, at the earliest.
    pub(crate) not_before: Timestamp,
    pub(crate) wait_seconds: u64,
    /// Why the turn failed.
    pub(crate) error: RunError,
}

/// What a restart did to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryState {
    /// It was not interrupted.
    None,
    /// It went on waiting for its user.
    RecoveredWaiting,
    FailedReconciled,
}

/// Data of `run.recovered`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovered {
    /// What became of the run.
    pub(crate) recovery_state: RecoveryState,
    pub(crate) recovery_reason: String,
    pub(crate) recovered_at: Timestamp,
}

/// Data of `conversation.completed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completed {
    /// Always `succeeded`.
    pub(crate) status: Status,
    /// What proved the end.
    pub(crate) completion: Completion,
    /// Where the result is, in the run's folder.
    pub(crate) result_path: String,
    pub(crate) usage: Usage,
    /// What makes the run checkable offline.
    pub(crate) proof: Proof,
}

/// Data of `conversation.failed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// `failed` or `canceled`.
    pub(crate) status: Status,
    pub(crate) error: RunError,
    pub(crate) usage: Usage,
    /// What makes the run checkable offline.
    pub(crate) proof: Proof,
}
