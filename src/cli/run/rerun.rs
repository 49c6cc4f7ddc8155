//! `rerun`: runs again what an earlier run was asked for.

use serde_json::{Map, Value, json};

use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::run::command::{Told, carry_out};
use crate::cli::run::key_value::KeyValue;
use crate::cli::run::request::{Asked, SkillPlace, values};

/// Runs again what an earlier run was asked for, with the same input and files
///
/// The engine runs again, even if there is a result of an equal run. Output and exit status are those of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skill-runner rerun last
  skill-runner rerun 0192f3c1-8a54 --param divisor=5 --timeout 600")]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// Engine to use [default: that of the run]
    #[arg(long)]
    engine: Option<String>,
    /// Model for the engine to use [default: that of the run]
    #[arg(long)]
    model: Option<String>,
    /// Input value that is different; repeat for more
    #[arg(long, value_name = "KEY=VALUE")]
    input: Vec<KeyValue>,
    /// Parameter value that is different; repeat for more
    #[arg(long, value_name = "KEY=VALUE")]
    param: Vec<KeyValue>,
    /// Time limit of an attempt in seconds [default: that of the run]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Take the result of an equal run if there is one
    #[arg(long)]
    cached: bool,
    /// Show every event, one line each
    #[arg(long, short)]
    verbose: bool,
    /// Print the job with its result as one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to use [default: the running service of the data directory]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn rerun(global: &Global, args: Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    let (run, skill) = {
        // Closed again before the run: it has the store.
        let runs = Runs::open(&settings, args.server.as_deref())?;
        let run = runs.resolve(&args.id)?;
        (run, runs.job(run)?["skill_id"].as_str().unwrap_or_default().to_owned())
    };
    let told = Told { as_json: args.json, verbose: args.verbose };
    let server = args.server.clone();
    let asked = Asked::Again { run, skill: SkillPlace::Installed(skill), patch: patch(args)? };
    carry_out(settings, server.as_deref(), asked, told)
}

/// What is different, as a merge patch on the request of the run.
fn patch(args: Args) -> Result<Map<String, Value>, Failure> {
    let mut patch = Map::new();
    let named = [("engine", args.engine.map(Value::from)), ("model", args.model.map(Value::from))];
    patch.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    for (name, flag, pairs) in [("input", "--input", args.input), ("parameter", "--param", args.param)] {
        if !pairs.is_empty() {
            patch.insert(name.to_owned(), values(flag, pairs)?);
        }
    }
    let mut options = Map::new();
    options.extend(args.timeout.map(|seconds| ("hard_timeout_seconds".to_owned(), json!(seconds))));
    options.extend(args.cached.then(|| ("no_cache".to_owned(), json!(false))));
    if !options.is_empty() {
        patch.insert("runtime_options".to_owned(), Value::Object(options));
    }
    Ok(patch)
}
