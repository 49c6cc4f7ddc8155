//! `explain`: where a field of a run's result came from, and what the cache did for the run.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::look::one_line;
use crate::cli::terminal::output;
use crate::settings::LogLevel;

/// Longest value that is shown.
const VALUE_MAX: usize = 200;

/// Tells where a field of a run's result came from
///
/// Names the step of validation, the event that carried the value and its bytes in the engine's output, or the file and
/// its bytes; and says whether those are the field's own bytes or all bytes of the event or file. With --cache: whether the
/// result was taken from an equal run, and if not, which part of the cache key differs from the nearest earlier run.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  skill-runner explain 0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7 --path /data/items/0\n  \
    skill-runner explain 0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7 --cache"
)]
pub(crate) struct Args {
    /// Request id or run id
    id: String,
    /// The field, as a JSON pointer into the result
    #[arg(long, value_name = "POINTER", default_value = "/data")]
    path: String,
    /// What the cache did for the run
    #[arg(long, conflicts_with = "path")]
    cache: bool,
    /// One JSON document
    #[arg(long)]
    json: bool,
    /// The service to ask [default: the one of the data directory, where it runs]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

/// Tells it.
pub(crate) fn explain(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let runs = Runs::open(&settings, args.server.as_deref())?;
    let run = runs.resolve(&args.id)?;
    if args.cache {
        let story = match &runs {
            Runs::Service(client) => client.get(&format!("/jobs/{run}/explain/cache"))?,
            Runs::Store(log) => {
                serde_json::to_value(log.explain_cache(run)?).map_err(Failure::broken("write the explanation"))?
            }
        };
        return if args.json { output::json(&story) } else { output::line(&told_of_cache(&story)) };
    }
    let explanation = match &runs {
        Runs::Service(client) => {
            client.get(&format!("/jobs/{run}/explain?path={}", utf8_percent_encode(&args.path, NON_ALPHANUMERIC)))?
        }
        Runs::Store(log) => {
            serde_json::to_value(log.explain(run, &args.path)?).map_err(Failure::broken("write the explanation"))?
        }
    };
    if args.json { output::json(&explanation) } else { output::line(&told(&explanation)) }
}

/// The cache's part in words.
fn told_of_cache(story: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let mut lines = vec![format!("{}: {}", text(&story["outcome"]).replace('_', " "), text(&story["reason"]))];
    lines.push(format!("key {}", text(&story["key"])));
    if let Some(nearest) = story["nearest_run"].as_str() {
        lines.push(format!("nearest run {nearest}"));
    }
    lines.join("\n")
}

/// The explanation in words.
fn told(explanation: &Value) -> String {
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
        Some("field") => "its own bytes",
        _ => "all of them, since it does not stand there as it stands in the result",
    };
    lines.push(match origin["kind"].as_str() {
        Some("stream") => {
            let (seq, kind, stream) = (&origin["seq"], text(&origin["type"]), text(&origin["stream"]));
            format!("carried by event {seq}, {kind}: bytes {bytes} of logs/{stream}.txt, {how}")
        }
        Some("file") => format!("written to {}: bytes {bytes}, {how}", text(&origin["file"])),
        Some("run") => {
            format!("taken at event {} from the equal run {}", origin["seq"], text(&origin["source_run_id"]))
        }
        _ => "the log does not tell where it came from".to_owned(),
    });
    let result = &explanation["result"];
    lines.push(format!("stands in {}: bytes {}..{}", text(&result["file"]), result["byte_from"], result["byte_to"]));
    lines.join("\n")
}
