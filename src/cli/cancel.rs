//! `cancel`: stop a run of a running service.

use serde_json::json;

use super::failure::Failure;
use super::global::Global;
use super::service_address::{run_of, service};
use super::{logging, output};
use crate::settings::LogLevel;

/// Stops a run of a running service, wherever it is
///
/// A run that is over stays as it is, and the exit status is 0 all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner cancel 0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7")]
pub(super) struct Args {
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
pub(super) fn cancel(global: &Global, args: &Args) -> Result<(), Failure> {
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
