//! The contract's limits on values, checked before an event is written; `schema/fcmp.schema.json` says the same.

use crate::domain::event::{Event, RAW_TEXT_MAX};
use crate::domain::fact::RawRange;
use crate::domain::outcome::{Proof, ProofSignature, Usage};
use crate::domain::run_file::RunFolder;
use crate::domain::statechart::Status;

/// An event that breaks the contract; it is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("PROTOCOL_SCHEMA_VIOLATION: {type_name} at {pointer}: {message}")]
pub struct SchemaViolation {
    pub(crate) type_name: &'static str,
    pub(crate) pointer: &'static str,
    pub(crate) message: String,
}

impl SchemaViolation {
    pub(super) fn new(type_name: &'static str, pointer: &'static str, message: &str) -> Self {
        Self { type_name, pointer, message: message.to_owned() }
    }
}

/// What the types alone do not guarantee.
pub(crate) fn check(event: &Event, raw: Option<RawRange>) -> Result<(), SchemaViolation> {
    let type_name = event.type_name();
    let ensure = |ok: bool, pointer: &'static str, message: &str| {
        if ok { Ok(()) } else { Err(SchemaViolation::new(type_name, pointer, message)) }
    };
    let named = |text: &str, pointer: &'static str| ensure(!text.is_empty(), pointer, "must not be empty");
    let hash = |text: &str, pointer: &'static str| ensure(is_sha256(text), pointer, "must be 64 hexadecimal digits");
    if let Some(range) = raw {
        ensure(range.from <= range.to, "/raw_ref/byte_to", "must not be before byte_from")?;
    }
    match event {
        Event::Started(started) => {
            named(&started.skill.id, "/data/skill/id")?;
            named(&started.engine, "/data/engine")?;
            let optional_hash = |text: &Option<String>, pointer| text.as_deref().map_or(Ok(()), |it| hash(it, pointer));
            optional_hash(&started.cache_key, "/data/cache_key")?;
            optional_hash(&started.engine_config_sha256, "/data/engine_config_sha256")
        }
        Event::Uploaded(uploaded) => {
            for file in &uploaded.files {
                named(&file.name, "/data/files/name")?;
                hash(&file.sha256, "/data/files/sha256")?;
            }
            hash(&uploaded.manifest_sha256, "/data/manifest_sha256")?;
            hash(&uploaded.cache_key, "/data/cache_key")?;
            let Some(package) = &uploaded.package else { return Ok(()) };
            named(&package.skill.id, "/data/package/skill/id")?;
            named(&package.engine, "/data/package/engine")?;
            if let Some(config) = &package.engine_config_sha256 {
                hash(config, "/data/package/engine_config_sha256")?;
            }
            hash(&package.sha256, "/data/package/sha256")
        }
        Event::CacheHit(hit) => hash(&hit.cache_key, "/data/cache_key"),
        Event::TurnStarted(turn) => {
            ensure(turn.attempt >= 1, "/data/attempt", "must be at least 1")?;
            ensure(!turn.command.is_empty(), "/data/command", "must not be empty")
        }
        Event::SessionBound(bound) => named(&bound.handle, "/data/handle"),
        Event::Progress(progress) => {
            ensure((0.0..=100.0).contains(&progress.percent), "/data/percent", "must be from 0 to 100")
        }
        Event::UsageReported(usage) => cost(usage, type_name),
        Event::RawStdout(raw) | Event::RawStderr(raw) => {
            // Characters are at most as many as bytes, so most texts are decided without counting.
            let fits = raw.text.len() <= RAW_TEXT_MAX || raw.text.chars().count() <= RAW_TEXT_MAX;
            ensure(fits, "/data/text", "must be at most 65536 characters")
        }
        Event::InputRequired(interaction) => {
            ensure(interaction.interaction_id.0 >= 1, "/data/interaction_id", "must be at least 1")?;
            named(&interaction.prompt, "/data/prompt")
        }
        Event::ReplyAccepted(reply) => {
            ensure(reply.interaction_id.0 >= 1, "/data/interaction_id", "must be at least 1")
        }
        Event::AutoDecided(decided) => {
            ensure(decided.interaction_id.0 >= 1, "/data/interaction_id", "must be at least 1")
        }
        Event::ArtifactIndexed(artifact) => {
            ensure(
                RunFolder::Artifacts.strip(&artifact.path_rel).is_some(),
                "/data/path_rel",
                "must begin with artifacts/",
            )?;
            hash(&artifact.sha256, "/data/sha256")
        }
        Event::Warned(warning) => named(&warning.code, "/data/code"),
        Event::Completed(completed) => {
            ensure(completed.status == Status::Succeeded, "/data/status", "must be succeeded")?;
            cost(&completed.usage, type_name)?;
            proof(&completed.proof, type_name)
        }
        Event::Failed(failed) => {
            let ended = matches!(failed.status, Status::Failed | Status::Canceled);
            ensure(ended, "/data/status", "must be failed or canceled")?;
            named(&failed.error.code, "/data/error/code")?;
            cost(&failed.usage, type_name)?;
            proof(&failed.proof, type_name)
        }
        Event::RetryScheduled(scheduled) => {
            ensure(scheduled.retry >= 1, "/data/retry", "must be at least 1")?;
            named(&scheduled.error.code, "/data/error/code")
        }
        Event::StateChanged(_)
        | Event::AssistantMessage(_)
        | Event::AssistantReasoning(_)
        | Event::ToolCall(_)
        | Event::CommandExecution(_)
        | Event::Normalized(_)
        | Event::CancelRequested(_)
        | Event::Recovered(_) => Ok(()),
    }
}

fn cost(usage: &Usage, type_name: &'static str) -> Result<(), SchemaViolation> {
    if usage.cost_usd.is_none_or(|cost| cost.is_finite() && cost >= 0.0) {
        return Ok(());
    }
    Err(SchemaViolation::new(type_name, "/data/cost_usd", "must be a number of at least 0"))
}

/// The chain is filled in while writing, so only the files' part is checked here.
fn proof(proof: &Proof, type_name: &'static str) -> Result<(), SchemaViolation> {
    let streams = proof.streams.values().map(|stream| &stream.sha256);
    let files = proof.files_sha256.iter().chain(&proof.result_sha256);
    let hashes = streams.chain(files).chain([&proof.artifacts_sha256]).all(|hash| is_hex(hash, 64));
    let signed = |it: &ProofSignature| is_hex(&it.public_key, 64) && is_hex(&it.ed25519, 128);
    let whole = hashes && proof.signature.as_ref().is_none_or(signed);
    if whole {
        Ok(())
    } else {
        Err(SchemaViolation::new(type_name, "/data/proof", "hashes must be 64 hexadecimal digits"))
    }
}

fn is_sha256(text: &str) -> bool {
    is_hex(text, 64)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
