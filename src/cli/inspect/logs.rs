//! `logs`: the prompt and the raw output of an engine, from a running service or from the run's folder.

use std::io::{self, IsTerminal};
use std::ops::Range;

use crate::cli::connect::event_stream;
use crate::cli::connect::raw_output::RawOutput;
use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::foreign::Foreign;
use crate::cli::terminal::output;
use crate::domain::fact::Stream;
use crate::domain::ids::{RunId, Seq};
use crate::fcmp::read_envelope;
use crate::settings::LogLevel;

/// Most bytes that are read at once.
const PIECE: u64 = 1024 * 1024;

/// Shows the raw output or the prompt of a run's engine
///
/// Output is printed byte for byte as the engine wrote it, standard output and standard error in the order of the log.
/// On a terminal, characters that would control it are shown as �.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skill-runner logs last
  skill-runner logs last --stream stderr --follow
  skill-runner logs last --event 7
  skill-runner logs last --stream stdout --bytes 100-220")]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// Which text to show [default: standard output and standard error]
    #[arg(long, value_enum)]
    stream: Option<Text>,
    /// Show only the bytes that event N was made of
    #[arg(long, value_name = "N", conflicts_with_all = ["stream", "bytes", "follow", "json"], value_parser = clap::value_parser!(u64).range(1..))]
    event: Option<u64>,
    /// Show only the bytes from A up to B, of --stream
    #[arg(long, value_name = "A-B", conflicts_with_all = ["follow", "json"], requires = "stream")]
    bytes: Option<String>,
    /// Keep printing until the run ends
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    /// Print all texts as one JSON document
    #[arg(long, conflicts_with = "stream")]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory, else the run's folder]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

/// One text of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Text {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
    /// What the engine was asked to do
    Prompt,
}

/// What of the output is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Both,
    Only(Stream),
}

pub(crate) fn logs(global: &Global, args: &Args) -> Result<(), Failure> {
    let range = args.bytes.as_deref().map(range).transpose()?;
    let wanted = match args.stream {
        None => Wanted::Both,
        Some(Text::Stdout) => Wanted::Only(Stream::Stdout),
        Some(Text::Stderr) => Wanted::Only(Stream::Stderr),
        Some(Text::Prompt) if args.follow || range.is_some() => {
            let message = "--follow and --bytes work with --stream stdout or stderr, not with the prompt";
            return Err(Failure::Usage(message.to_owned()));
        }
        Some(Text::Prompt) => Wanted::Both,
    };
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let runs = Runs::open(&settings, args.server.as_deref())?;
    let run = runs.resolve(&args.id)?;
    let output = RawOutput::of(&runs, run)?;
    if args.json {
        return output::json(&output.texts()?);
    }
    let mut shown = Shown::on_stdout();
    if args.stream == Some(Text::Prompt) {
        shown.write(&output.prompt()?)?;
    } else if let (Some(range), Wanted::Only(stream)) = (range, wanted) {
        copy(&output, stream, range, &mut shown)?;
    } else if let Some(event) = args.event {
        let (stream, range) = bytes_of(&runs, run, Seq(event))?;
        copy(&output, stream, range, &mut shown)?;
    } else {
        let mut merged = Merged { output: &output, wanted, next: None, shown: &mut shown };
        match &runs {
            Runs::Service(client) if args.follow => event_stream::follow(client, run, |event| {
                merged.take(&event)?;
                merged.flush().map(|()| true)
            })?,
            Runs::Service(_) | Runs::Store(_) => {
                runs.events(run, Seq(1), None, |event| merged.take(event))?;
                merged.flush()?;
            }
        }
    }
    shown.end()
}

/// `A-B`: from byte A up to, and without, byte B.
fn range(text: &str) -> Result<Range<u64>, Failure> {
    let wrong = || Failure::Usage(format!("--bytes {text:?} is not A-B, such as 100-220"));
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let (from, to): (u64, u64) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
    if from <= to { Ok(from..to) } else { Err(wrong()) }
}

/// The bytes that an event was made of.
fn bytes_of(runs: &Runs, run: RunId, seq: Seq) -> Result<(Stream, Range<u64>), Failure> {
    let mut found = None;
    runs.events(run, seq, Some(seq), |event| {
        found = read_envelope(event).ok();
        Ok(())
    })?;
    let Some(envelope) = found else {
        return Err(Failure::NotFound(format!("the run has no event {seq}")));
    };
    let none = || {
        let kind = &envelope.type_name;
        Failure::NotFound(format!("event {seq}, {kind}, was not made of the engine's output"))
    };
    envelope.raw_ref.as_ref().map(|raw| (raw.stream, raw.byte_from..raw.byte_to)).ok_or_else(none)
}

fn copy(output: &RawOutput<'_>, stream: Stream, range: Range<u64>, shown: &mut Shown) -> Result<(), Failure> {
    let mut at = range.start;
    while at < range.end {
        let bytes = output.read(stream, at..range.end.min(at.saturating_add(PIECE)))?;
        if bytes.is_empty() {
            return Ok(());
        }
        at += bytes.len() as u64;
        shown.write(&bytes)?;
    }
    Ok(())
}

/// Both streams in the order of the log. Neighbouring bytes are read together.
struct Merged<'a> {
    output: &'a RawOutput<'a>,
    wanted: Wanted,
    next: Option<(Stream, Range<u64>)>,
    shown: &'a mut Shown,
}

impl Merged<'_> {
    fn take(&mut self, event: &[u8]) -> Result<(), Failure> {
        let Some(raw) = read_envelope(event).ok().and_then(|envelope| envelope.raw_ref) else { return Ok(()) };
        if matches!(self.wanted, Wanted::Only(stream) if stream != raw.stream) {
            return Ok(());
        }
        match &mut self.next {
            Some((stream, range)) if *stream == raw.stream && range.end == raw.byte_from => range.end = raw.byte_to,
            Some((stream, range)) if *stream == raw.stream && raw.byte_to <= range.end => {}
            _ => {
                self.flush()?;
                self.next = Some((raw.stream, raw.byte_from..raw.byte_to));
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        match self.next.take() {
            Some((stream, range)) => copy(self.output, stream, range, self.shown),
            None => Ok(()),
        }
    }
}

/// Standard output, for what an engine wrote.
struct Shown {
    /// None where bytes are written as they are.
    foreign: Option<Foreign>,
}

impl Shown {
    fn on_stdout() -> Self {
        Self { foreign: io::stdout().is_terminal().then(Foreign::default) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match &mut self.foreign {
            Some(foreign) => output::bytes(&mut out, foreign.next(bytes).as_bytes())?,
            None => output::bytes(&mut out, bytes)?,
        }
        output::flushed(&mut out)
    }

    fn end(&mut self) -> Result<(), Failure> {
        let rest = self.foreign.as_mut().map(Foreign::rest).unwrap_or_default();
        output::bytes(&mut io::stdout().lock(), rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_numbers_in_order() {
        assert_eq!(range("3-7").ok(), Some(3..7));
        assert_eq!(range("3-3").ok(), Some(3..3));
        for wrong in ["", "3", "7-3", "a-b", "-3", "3-", "1-2-3"] {
            assert!(matches!(range(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
    }
}
