//! `explain`: why a run failed, where a field of its result came from, and what the cache did for it.

use serde_json::Value;

use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::failure_text::failure_lines;
use crate::cli::terminal::look::one_line;
use crate::cli::terminal::{output, wrap};
use crate::domain::ids::RunId;
use crate::settings::LogLevel;

/// Longest value that is shown.
const VALUE_MAX: usize = 200;

/// Shows why a run failed, or where a field of its result came from
///
/// Of a run that failed: the cause, the event that decided it, each place where the output breaks its schema with its
/// bytes, and what to do next. Of a run that succeeded: the validation step, and the event or file that held the field
/// with its byte range: either the exact bytes of the field, or all bytes of that event or file. With --cache: whether the
/// result was taken from an equal run, and if not, which part of the cache key differs from the most similar earlier run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skill-runner explain last\n  skill-runner explain last --path /data/items/0\n  \
    skill-runner explain 0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7 --cache")]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// The field, as a JSON pointer into the result, such as /data/items/0 [default of a run that succeeded: /data]
    #[arg(long, value_name = "POINTER")]
    path: Option<String>,
    /// Show what the cache did for the run instead
    #[arg(long, conflicts_with = "path")]
    cache: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory, else the store]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn explain(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let runs = Runs::open(&settings, args.server.as_deref())?;
    let run = runs.resolve(&args.id)?;
    if args.cache {
        let story = match &runs {
            Runs::Service(client) => client.explain_cache(run)?,
            Runs::Store(offline) => serde_json::to_value(offline.wait(offline.log.explain_cache(run))?)
                .map_err(Failure::broken("write the explanation"))?,
        };
        return if args.json { output::json(&story) } else { wrap::text(&cache_lines(&story)) };
    }
    if args.path.is_none()
        && let Some(failure) = failure_of(&runs, run)?
    {
        return if args.json { output::json(&failure) } else { wrap::text(&failure_text(&failure)) };
    }
    let path = args.path.as_deref().unwrap_or("/data");
    let explanation = match &runs {
        Runs::Service(client) => client.explain_field(run, path)?,
        Runs::Store(offline) => serde_json::to_value(offline.wait(offline.log.explain(run, path))?)
            .map_err(Failure::broken("write the explanation"))?,
    };
    if args.json { output::json(&explanation) } else { wrap::text(&lines_of(&explanation)) }
}

/// Why the run failed; none if it succeeded.
fn failure_of(runs: &Runs, run: RunId) -> Result<Option<Value>, Failure> {
    match runs {
        Runs::Service(client) => {
            let found = client.explain(run)?;
            Ok(found.answer.cause.map(|_| found.document))
        }
        Runs::Store(offline) => offline
            .wait(offline.log.explain_failure(run))?
            .map(serde_json::to_value)
            .transpose()
            .map_err(Failure::broken("write the explanation")),
    }
}

fn failure_text(failure: &Value) -> String {
    let status = one_line(failure["status"].as_str().unwrap_or_default(), VALUE_MAX);
    let run = one_line(failure["run_id"].as_str().unwrap_or_default(), VALUE_MAX);
    let mut lines = vec![format!("{status}, run {run}")];
    lines.extend(failure_lines(failure));
    lines.join("\n")
}

fn cache_lines(story: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let mut lines = vec![format!("{}: {}", text(&story["outcome"]).replace('_', " "), text(&story["reason"]))];
    lines.push(format!("key {}", text(&story["key"])));
    if let Some(nearest) = story["nearest_run"].as_str() {
        lines.push(format!("nearest run {nearest}"));
    }
    lines.join("\n")
}

fn lines_of(explanation: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let value = one_line(&explanation["value"].to_string(), VALUE_MAX);
    let mut lines = vec![format!("{} = {value}", one_line(&text(&explanation["path"]), VALUE_MAX))];
    let validation = &explanation["validation"];
    if !validation.is_null() {
        let steps = validation["steps"].as_array().into_iter().flatten().filter(|step| step["ok"] == true);
        let steps: Vec<String> = steps.map(|step| text(&step["step"])).collect();
        let (level, source) = (text(&validation["level"]), text(&validation["source"]));
        lines.push(format!(
            "validated at event {}: level {level}, from {source} ({})",
            validation["seq"],
            steps.join(", ")
        ));
    }
    let origin = &explanation["origin"];
    let bytes = format!("{}..{}", origin["byte_from"], origin["byte_to"]);
    let how = match origin["precision"].as_str() {
        Some("field") => "the exact bytes of the field",
        _ => "the whole range, because the value is written differently there",
    };
    lines.push(match origin["kind"].as_str() {
        Some("stream") => {
            let (seq, kind, stream) = (&origin["seq"], text(&origin["type"]), text(&origin["stream"]));
            format!("from event {seq}, {kind}: bytes {bytes} of logs/{stream}.txt, {how}")
        }
        Some("file") => format!("from the file {}: bytes {bytes}, {how}", text(&origin["file"])),
        Some("run") => {
            format!("taken from the equal run {1} at event {0}", origin["seq"], text(&origin["source_run_id"]))
        }
        _ => "the log does not record where it came from".to_owned(),
    });
    let result = &explanation["result"];
    lines.push(format!(
        "in the result: {}, bytes {}..{}",
        text(&result["file"]),
        result["byte_from"],
        result["byte_to"]
    ));
    lines.join("\n")
}
