//! `replay`: its flags, and the events of an export on the terminal.

use std::io;
use std::path::PathBuf;

use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::inspect::replay::pace::{Pace, Speed};
use crate::cli::inspect::replay::recording::Recording;
use crate::cli::inspect::replay::{engine, feed};
use crate::cli::logging;
use crate::cli::runtime::runtime;
use crate::cli::terminal::output;
use crate::cli::terminal::screen::{Screen, Shown};
use crate::domain::ids::Seq;
use crate::settings::LogLevel;

/// Replays a recorded run
///
/// Shows the events of an export as `watch` shows those of a run, with the recorded pauses of at most ten seconds. With
/// --serve, the run appears on the routes of the API as if it were running: status, events, history, log ranges, files,
/// and at its end the result. The served run is read-only.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The export of a run
    #[arg(value_name = "EXPORT", required_unless_present = "as_engine")]
    export: Option<PathBuf>,
    /// Stop after this event
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    until: Option<u64>,
    /// How much faster than recorded: a number such as 2 or 0.5, or max for no pauses
    #[arg(long, value_name = "X", default_value = "1")]
    speed: Speed,
    /// Show every event, one line each
    #[arg(long, short, conflicts_with_all = ["serve", "json"])]
    verbose: bool,
    /// Print the stored bytes, one event per line
    #[arg(long, conflicts_with = "serve")]
    json: bool,
    /// Serve the run as a live feed until SIGTERM, SIGINT or SIGHUP
    #[arg(long)]
    serve: bool,
    /// Port to listen on; 0 chooses a free one [default: 8000]
    #[arg(long, requires = "serve")]
    port: Option<String>,
    /// Act as an engine: a folder with stdout.raw, stderr.raw and exit.json, followed by the engine's arguments
    #[arg(long, value_name = "CASE", num_args = 1.., allow_hyphen_values = true)]
    as_engine: Vec<String>,
    /// The engine's arguments, after a `--`
    #[arg(hide = true, requires = "as_engine")]
    rest: Vec<String>,
}

const AFTER_HELP: &str = "\
Configured as an engine's command (in a small script that passes its arguments on), --as-engine lets the service run on
recorded output, without the agent CLI and without a model.

Examples:
  skill-runner replay run.zip --speed 4
  skill-runner replay run.zip --until 12 --speed max
  skill-runner replay run.zip --serve --port 0
  skill-runner replay --as-engine replay/codex/b_tool_then_json";

pub(crate) fn replay(global: &Global, args: &Args) -> Result<(), Failure> {
    if let Some((case, arguments)) = args.as_engine.split_first() {
        return engine::pose(case.as_ref(), arguments);
    }
    let Some(path) = &args.export else { return Err(Failure::Usage("name the export to replay".to_owned())) };
    logging::to_terminal(LogLevel::Warn);
    let recording = Recording::open(path)?;
    let (pace, until) = (Pace::new(args.speed), args.until.map_or(Seq(u64::MAX), Seq));
    if args.serve {
        let settings = global.settings(&[("port", args.port.clone())])?;
        return runtime()?.block_on(feed::serve(settings, recording, pace, until));
    }
    show(&recording, pace, until, args)
}

/// Shows the events as they came.
fn show(recording: &Recording, mut pace: Pace, until: Seq, args: &Args) -> Result<(), Failure> {
    let mut screen = Screen::new(Shown::OnStdout, args.verbose);
    for event in recording.events() {
        let (envelope, stored) = event?;
        if envelope.seq > until {
            break;
        }
        std::thread::sleep(pace.pause_before(envelope.ts));
        if args.json {
            let mut out = io::stdout().lock();
            output::bytes(&mut out, &stored)?;
            output::bytes(&mut out, b"\n")?;
            output::flushed(&mut out)?;
        } else {
            screen.show(&stored);
        }
    }
    screen.clear();
    Ok(())
}
