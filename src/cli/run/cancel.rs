//! `cancel`: cancels a run of a running service.

use crate::cli::connect::service_address::{run_of, service};
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::output;
use crate::settings::LogLevel;

/// Cancels a run of a running service
///
/// A run that has already ended is not changed; the exit status is 0 in that case, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner cancel last")]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// Print the service's answer as one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn cancel(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let client = service(&settings, args.server.as_deref())?;
    let run = run_of(&client, &args.id)?;
    let answer = client.cancel(run)?;
    if args.json {
        return output::json(&answer.document);
    }
    output::line(&answer.answer.message)
}
