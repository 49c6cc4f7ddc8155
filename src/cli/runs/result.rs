//! `result`: the result of a run that has ended.

use serde_json::Value;

use crate::bounded;
use crate::cli::connect::runs::{OfflineLog, Runs};
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::run::{ArtifactsAt, Outcome, remote};
use crate::cli::terminal::awaited::awaited;
use crate::cli::terminal::fold::to_stderr;
use crate::cli::terminal::look::Look;
use crate::cli::terminal::output;
use crate::domain::codes::{ErrorCode, Exit};
use crate::domain::ids::RunId;
use crate::domain::statechart::Status;
use crate::settings::LogLevel;

/// Prints the result of a run that has ended
///
/// The data goes to standard output, how the run ended to standard error. Exit status 0 if the run succeeded, 1 if it
/// failed, was canceled or has not ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner result last | python3 -m json.tool")]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// Print the job with its result as one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory, else the store]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn result(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let runs = Runs::open(&settings, args.server.as_deref())?;
    let run = runs.resolve(&args.id)?;
    let job = runs.job(run)?;
    let status: Option<Status> = serde_json::from_value(job["status"].clone()).ok();
    if status.is_some_and(|status| !status.is_final()) {
        return Err(not_ready(&job));
    }
    let outcome = match &runs {
        Runs::Service(client) => {
            let data_dir = args.server.is_none().then_some(settings.paths.data_dir.as_path());
            remote::outcome(client, run, data_dir)?
        }
        Runs::Store(offline) => stored(offline, run, job)?,
    };
    to_stderr(&outcome.summary(Look::of(&std::io::stderr())));
    if args.json {
        output::json(&outcome.document())?;
    } else if let Some(data) = outcome.data() {
        output::line(&data)?;
    }
    if outcome.status() == Some(Status::Succeeded) { Ok(()) } else { Err(Failure::Reported(Exit::Failed)) }
}

fn not_ready(job: &Value) -> Failure {
    let status = job["status"].as_str().unwrap_or_default();
    let message = match awaited(job) {
        Some(awaited) => format!("the run {awaited}"),
        None if status == Status::WaitingUser.as_str() => {
            let run = job["run_id"].as_str().unwrap_or_default();
            format!("the run waits for an answer; `skill-runner reply {run}` shows the question and answers it")
        }
        None => format!("the run is {status}; {}", ErrorCode::ResultNotReady.info().hint.cli),
    };
    Failure::refused(ErrorCode::ResultNotReady, message)
}

fn stored(offline: &OfflineLog, run: RunId, job: Value) -> Result<Outcome, Failure> {
    let state = offline.wait(offline.log.head(run))?.state;
    let text = offline.wait(offline.log.result(&state))?;
    let result = bounded::json::from_str(text.get()).map_err(Failure::broken("read the result"))?;
    let failure = offline.wait(offline.log.explain_failure(run))?;
    let failure = failure.map(serde_json::to_value).transpose().map_err(Failure::broken("explain the failure"))?;
    let root = offline.wait(offline.log.folder(run))?.root;
    Ok(Outcome::new(job, result, ArtifactsAt::Folder(root)).explained(failure))
}
