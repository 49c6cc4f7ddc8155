//! `rm`: deletes runs that have ended.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::connect::data_folder;
use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::runtime::runtime;
use crate::cli::terminal::output;
use crate::domain::ids::RunId;
use crate::registry::Registry;
use crate::settings::{LogLevel, Settings};

/// Deletes runs that have ended, with their events, files and results
///
/// A run that has not ended is refused; cancel it first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner rm 0192f3c1-8a54 last")]
pub(crate) struct Args {
    /// Ids of runs, their first characters, or `last`
    #[arg(required = true)]
    ids: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory, else the store]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn remove(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let runs = Runs::open(&settings, args.server.as_deref())?;
    // All are looked up before one is deleted: a wrong id changes nothing.
    let ids = args.ids.iter().map(|id| runs.resolve(id)).collect::<Result<Vec<RunId>, Failure>>()?;
    let deleted = match runs {
        Runs::Service(client) => {
            let delete = |run: &RunId| Ok(client.remove(*run)?.document);
            ids.iter().map(delete).collect::<Result<Vec<Value>, Failure>>()?
        }
        Runs::Store(offline) => {
            // It has the store, which whoever deletes needs.
            drop(offline);
            without_service(settings, &ids)?
        }
    };
    if args.json {
        return output::json(&json!({ "deleted": deleted }));
    }
    deleted.iter().try_for_each(|run| output::line(&format!("deleted {}", run["run_id"].as_str().unwrap_or_default())))
}

fn without_service(settings: Settings, ids: &[RunId]) -> Result<Vec<Value>, Failure> {
    runtime()?.block_on(async {
        let store = data_folder::open_store(&settings)?;
        let registry = Registry::new(&settings.paths.skills_dir).with_agents(&settings.paths.agents_dir);
        let grace = Duration::from_secs(settings.http.drain_grace_seconds);
        let orchestrator = data_folder::take_over(store, registry, settings).await?;
        let mut deleted = Vec::new();
        let mut failed = None;
        for run in ids {
            match orchestrator.remove(*run).await {
                Ok(freed) => deleted.push(json!({"run_id": run, "deleted": true, "bytes_freed": freed})),
                Err(error) => failed = failed.or(Some(Failure::from(error))),
            }
        }
        orchestrator.drain(grace).await;
        failed.map_or(Ok(deleted), Err)
    })
}
