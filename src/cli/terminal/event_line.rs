//! A one-line summary of an event.

use crate::cli::terminal::look::one_line;
use crate::convergence::without_blocks;
use crate::domain::event::{Event, NormalizationLevel};
use crate::domain::outcome::Usage;
use crate::domain::request::SkillRef;
use crate::fcmp::Envelope;

/// Most characters of a summary.
const SUMMARY_MAX: usize = 200;

/// What the event says, on one line and without anything that could disturb a terminal.
pub(crate) fn summary(envelope: &Envelope) -> String {
    let text = match &envelope.event {
        Some(event) => words(event),
        None => "this version does not know this type of event".to_owned(),
    };
    one_line(&text, SUMMARY_MAX)
}

fn words(event: &Event) -> String {
    match event {
        Event::Started(started) => {
            let SkillRef { id, version, .. } = &started.skill;
            format!("{id} {version} on {}", started.engine)
        }
        Event::Uploaded(uploaded) => {
            let names: Vec<&str> = uploaded.files.iter().map(|file| file.name.as_str()).collect();
            names.join(", ")
        }
        Event::CacheHit(hit) => format!("result taken from run {}", hit.source_run_id),
        Event::StateChanged(change) => format!("{} → {}", change.from.as_str(), change.to.as_str()),
        Event::TurnStarted(turn) => format!("attempt {}: {}", turn.attempt, turn.command.join(" ")),
        Event::SessionBound(session) => format!("{} {}", session.handle_kind, session.handle),
        // An ask block is for programs; the question itself follows.
        Event::AssistantMessage(message) => without_blocks(&message.text),
        Event::AssistantReasoning(reasoning) => reasoning.text.clone(),
        Event::ToolCall(call) => format!("{} {} ({})", call.tool, call.input, call.status),
        Event::CommandExecution(execution) => format!("{} ({})", execution.command, execution.status),
        Event::Progress(progress) => format!("{}% {}", progress.percent, progress.message),
        Event::UsageReported(usage) => used(usage),
        Event::RawStdout(raw) | Event::RawStderr(raw) => raw.text.clone(),
        Event::InputRequired(interaction) => format!("{}: {}", interaction.interaction_id, interaction.prompt),
        Event::ReplyAccepted(reply) => format!("{}: {}", reply.interaction_id, reply.response_preview),
        Event::AutoDecided(decided) => format!("{}: {}", decided.interaction_id, decided.policy),
        Event::RetryScheduled(scheduled) => format!(
            "{} of {}, in {} s: {}",
            scheduled.retry, scheduled.times, scheduled.wait_seconds, scheduled.error.message
        ),
        Event::Normalized(normalized) => {
            let verdict = if normalized.valid { "valid" } else { "invalid" };
            let level = match normalized.level {
                NormalizationLevel::None => String::new(),
                level => format!(", normalized by {}", level.as_str()),
            };
            format!("{verdict} output from {}{level}", normalized.source)
        }
        Event::ArtifactIndexed(artifact) => {
            format!("{} ({}, {} bytes)", artifact.path_rel, artifact.mime, artifact.size)
        }
        Event::Warned(warning) => format!("{}: {}", warning.code, warning.message),
        Event::CancelRequested(cancel) => format!("by {}: {}", cancel.requested_by, cancel.reason),
        Event::Recovered(recovered) => recovered.recovery_reason.clone(),
        Event::Completed(completed) => format!("{}, {}", completed.status.as_str(), used(&completed.usage)),
        Event::Failed(failed) => format!("{} {}: {}", failed.status.as_str(), failed.error.code, failed.error.message),
    }
}

fn used(usage: &Usage) -> String {
    let Usage { input_tokens, cached_input_tokens: _, output_tokens, cost_usd } = usage;
    let cost = cost_usd.map(|cost| format!(", {cost} USD")).unwrap_or_default();
    format!("{input_tokens} tokens in, {output_tokens} out{cost}")
}
