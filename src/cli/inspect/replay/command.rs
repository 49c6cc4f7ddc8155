//! `replay`: a recorded run played again, to the terminal or as a live feed; or a recorded turn, posing as its engine.

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
use crate::cli::terminal::screen::Screen;
use crate::domain::ids::Seq;
use crate::settings::LogLevel;

/// Plays a recorded run again
///
/// Shows the events of an export as `watch` shows those of a run, with the pauses they had; no pause is longer than ten
/// seconds. With --serve they appear on the routes of the API as if the run were under way: status, events, history,
/// log ranges, files, and at its end the result. Nothing can be changed there.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The export of a run
    #[arg(value_name = "EXPORT", required_unless_present = "as_engine")]
    export: Option<PathBuf>,
    /// The last event to play
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    until: Option<u64>,
    /// How much faster than recorded: a number such as 2 or 0.5, or max for no pauses at all
    #[arg(long, value_name = "X", default_value = "1")]
    speed: Speed,
    /// The stored bytes, one event per line
    #[arg(long, conflicts_with = "serve")]
    json: bool,
    /// Serve the run as a live feed, until SIGTERM or SIGINT
    #[arg(long)]
    serve: bool,
    /// The port to listen on, 0 for any free one [default: 8000]
    #[arg(long, requires = "serve")]
    port: Option<String>,
    /// Pose as an engine: a folder with stdout.raw, stderr.raw and exit.json, then what the engine would have been given
    #[arg(long, value_name = "CASE", num_args = 1.., allow_hyphen_values = true)]
    as_engine: Vec<String>,
    /// What the engine would have been given, behind a `--`
    #[arg(hide = true, requires = "as_engine")]
    rest: Vec<String>,
}

const AFTER_HELP: &str = "\
Set as an engine's command (through a small script that passes its arguments on), --as-engine lets the whole service run
on recorded bytes, without the CLI and without a model.

Examples:
  skill-runner replay run.zip --speed 4
  skill-runner replay run.zip --until 12 --speed max
  skill-runner replay run.zip --serve --port 0
  skill-runner replay --as-engine replay/codex/b_tool_then_json";

/// Plays the run, or poses as the engine.
pub(crate) fn replay(global: &Global, args: &Args) -> Result<(), Failure> {
    if let Some((case, arguments)) = args.as_engine.split_first() {
        return engine::pose(case.as_ref(), arguments);
    }
    let Some(path) = &args.export else { return Err(Failure::Usage("name the export to play".to_owned())) };
    logging::to_terminal(LogLevel::Warn);
    let recording = Recording::open(path)?;
    let (pace, until) = (Pace::new(args.speed), args.until.map_or(Seq(u64::MAX), Seq));
    if args.serve {
        let settings = global.settings(&[("port", args.port.clone())])?;
        return runtime()?.block_on(feed::serve(settings, recording, pace, until));
    }
    show(&recording, pace, until, args.json)
}

/// Shows the events as they came.
fn show(recording: &Recording, mut pace: Pace, until: Seq, as_json: bool) -> Result<(), Failure> {
    let mut screen = Screen::new(false);
    for event in recording.events() {
        let (envelope, stored) = event?;
        if envelope.seq > until {
            break;
        }
        std::thread::sleep(pace.pause_before(envelope.ts));
        if as_json {
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
