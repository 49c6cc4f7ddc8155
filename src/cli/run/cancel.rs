//! `cancel`: stop a run of a running service.

use serde_json::json;

use crate::cli::connect::service_address::{run_of, service};
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::output;
use crate::settings::LogLevel;

/// Stops a run of a running service, wherever it is
///
/// A run that is over stays as it is, and the exit status is 0 all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner cancel 0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7")]
pub(crate) struct Args {
    /// Request id or run id
    id: String,
    /// The service's answer as one JSON document
    #[arg(long)]
    json: bool,
    /// The service to ask [default: the one of the data directory]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

/// Stops the run.
pub(crate) fn cancel(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let client = service(&settings, args.server.as_deref())?;
    let run = run_of(&client, &args.id)?;
    let answer = client.post(&format!("/jobs/{run}/cancel"), &json!({}))?;
    if args.json {
        return output::json(&answer);
    }
    output::line(answer["message"].as_str().unwrap_or_default())
}
