//! `watch`: the events of a service's run, to its end.

use std::io::{self, Write};

use crate::cli::connect::event_stream;
use crate::cli::connect::service_address::{run_of, service};
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::output;
use crate::cli::terminal::screen::Screen;
use crate::domain::codes::Exit;
use crate::domain::event::Event;
use crate::fcmp::read_envelope;
use crate::settings::LogLevel;

/// Shows the events of a run of a running service until it ends
///
/// Exit status 0 if the run succeeded, 1 if it failed or was canceled.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner watch 0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7")]
pub(crate) struct Args {
    /// Request id or run id
    id: String,
    /// Print the stored bytes, one event per line
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn watch(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let client = service(&settings, args.server.as_deref())?;
    let run = run_of(&client, &args.id)?;
    let mut screen = Screen::new(false);
    let mut succeeded = false;
    event_stream::follow(&client, run, |event| {
        if args.json {
            let mut out = io::stdout().lock();
            output::bytes(&mut out, &event)?;
            output::bytes(&mut out, b"\n")?;
            output::flushed(&mut out)?;
        } else {
            screen.show(&event);
        }
        succeeded = matches!(read_envelope(&event).map(|envelope| envelope.event), Ok(Some(Event::Completed(_))));
        Ok(true)
    })?;
    screen.clear();
    let _ = io::stdout().flush();
    if succeeded { Ok(()) } else { Err(Failure::Reported(Exit::Failed)) }
}
