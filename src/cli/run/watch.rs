//! `watch`: the events of a service's run, to its end.

use std::io;

use crate::cli::connect::client::Client;
use crate::cli::connect::event_stream;
use crate::cli::connect::service_address::{run_of, service};
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::run::remote;
use crate::cli::runtime::runtime;
use crate::cli::stop_signals::Stop;
use crate::cli::terminal::awaited::awaited;
use crate::cli::terminal::dialogue::Dialogue;
use crate::cli::terminal::fold::to_stderr;
use crate::cli::terminal::screen::{Screen, Shown};
use crate::cli::terminal::{output, wrap};
use crate::domain::codes::Exit;
use crate::domain::event::Event;
use crate::domain::ids::RunId;
use crate::fcmp::read_envelope;
use crate::settings::LogLevel;

/// Shows the events of a run of a running service until it ends, then how it ended
///
/// Ctrl-C ends the watching; the run goes on. Exit status 0 if the run succeeded, 1 if it failed or was canceled.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner watch last")]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// Show every event, one line each
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
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
    let (as_json, verbose) = (args.json, args.verbose);
    let runtime = runtime()?;
    let watched = runtime.block_on(async {
        let mut stop = Stop::listen()?;
        let watching = tokio::task::spawn_blocking(move || to_its_end(&client, run, as_json, verbose));
        tokio::select! {
            ended = watching => ended.map_err(Failure::broken("watch the run"))?,
            _ = stop.next() => {
                to_stderr("\nno longer watching; the run goes on");
                to_stderr(&format!("  `skill-runner watch {run}` watches it again, `skill-runner cancel {run}` cancels it"));
                Err(Failure::Reported(Exit::Interrupted))
            }
        }
    });
    // A stream that is being read cannot be interrupted; the end of the process ends it.
    runtime.shutdown_background();
    watched
}

fn to_its_end(client: &Client, run: RunId, as_json: bool, verbose: bool) -> Result<(), Failure> {
    let mut screen = Screen::new(Shown::OnStdout, verbose);
    if let Some(awaited) = awaited(&client.job(run)?.document).filter(|_| !as_json) {
        screen.say(&format!("the run {awaited}"));
    }
    let mut succeeded = false;
    event_stream::follow(client, run, |event| {
        let known = read_envelope(&event).ok().and_then(|envelope| envelope.event);
        if as_json {
            let mut out = io::stdout().lock();
            output::bytes(&mut out, &event)?;
            output::bytes(&mut out, b"\n")?;
            output::flushed(&mut out)?;
        } else {
            screen.show(&event);
            if let Some(Event::InputRequired(question)) = &known {
                screen.ask(&Dialogue::new(*question.clone()));
                screen.say(&format!("answer with `skill-runner reply {run}`"));
            }
        }
        succeeded = matches!(known, Some(Event::Completed(_)));
        Ok(true)
    })?;
    screen.clear();
    if !as_json {
        wrap::text(&remote::outcome(client, run, None)?.summary(screen.look()))?;
    }
    if succeeded { Ok(()) } else { Err(Failure::Reported(Exit::Failed)) }
}
