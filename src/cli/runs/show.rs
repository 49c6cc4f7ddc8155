//! `show`: what is known about one run.

use serde_json::Value;

use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::runs::table::labels;
use crate::cli::terminal::awaited::awaited;
use crate::cli::terminal::look::one_line;
use crate::cli::terminal::{output, wrap};
use crate::settings::LogLevel;

/// Longest value on a line.
const VALUE_MAX: usize = 500;

/// What is shown, in this order, where it is there.
const FIELDS: [&str; 18] = [
    "run_id",
    "request_id",
    "status",
    "skill_id",
    "skill_version",
    "engine",
    "engine_version",
    "model",
    "execution_mode",
    "created_at",
    "updated_at",
    "attempt",
    "head_seq",
    "queue_position",
    "pending_interaction_id",
    "isolation",
    "recovery_reason",
    "integrity",
];

/// Shows a run: its status, skill, engine, times, labels, warnings and error
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner show last")]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// Print the job as one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory, else the store]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn show(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let runs = Runs::open(&settings, args.server.as_deref())?;
    let job = runs.job(runs.resolve(&args.id)?)?;
    if args.json { output::json(&job) } else { wrap::text(&lines(&job).join("\n")) }
}

fn lines(job: &Value) -> Vec<String> {
    let text = |value: &Value| one_line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned), VALUE_MAX);
    let shown = FIELDS.iter().filter(|field| !job[**field].is_null());
    let mut lines: Vec<String> = shown
        .map(|field| format!("{}: {}", field.replace('_', " "), one_line(&in_words(&job[*field]), VALUE_MAX)))
        .collect();
    if job["cache_hit"] == true {
        lines.push("result: taken from an equal run".to_owned());
    }
    lines.extend(awaited(job));
    let labels = labels(job);
    if !labels.is_empty() {
        lines.push(format!("labels: {}", one_line(&labels, VALUE_MAX)));
    }
    if !job["metadata"].is_null() {
        lines.push(format!("metadata: {}", text(&job["metadata"])));
    }
    for warning in job["warnings"].as_array().into_iter().flatten() {
        lines.push(format!("warning: {}: {}", text(&warning["code"]), text(&warning["message"])));
    }
    if !job["error"].is_null() {
        lines.push(format!("error: {}: {}", text(&job["error"]["code"]), text(&job["error"]["message"])));
        lines.push(format!("next: `skill-runner explain {}` says why", text(&job["run_id"])));
    }
    lines
}

/// A value as a person writes it: lists with commas, members by their names.
fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(in_words).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{name}: {}", in_words(value));
            members.iter().map(member).collect::<Vec<_>>().join("; ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_shown_with_what_it_waits_for_its_labels_and_its_error() {
        let job = json!({"run_id": "r", "status": "queued", "model": null, "awaiting_upload": true, "awaiting_files": ["doc", "pdf"],
            "labels": {"team": "x"}, "metadata": {"a": 1}, "warnings": [{"code": "W", "message": "w"}],
            "error": {"code": "E", "message": "e"}, "isolation": {"tier": "sandbox", "parts": ["own-tmp", "seccomp"]}});
        assert_eq!(
            lines(&job),
            [
                "run id: r",
                "status: queued",
                "isolation: tier: sandbox; parts: own-tmp, seccomp",
                "waits for its files: doc, pdf; send them to the service with POST /v1/jobs/r/upload",
                "labels: team=x",
                "metadata: {\"a\":1}",
                "warning: W: w",
                "error: E: e",
                "next: `skill-runner explain r` says why",
            ]
        );
    }
}
