//! `logs`: the prompt and the raw output of an engine, read from a running service.

use std::io::{self, IsTerminal};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::cli::connect::client::Client;
use crate::cli::connect::event_stream;
use crate::cli::connect::service_address::{run_of, service};
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::foreign::Foreign;
use crate::cli::terminal::output;
use crate::domain::ids::RunId;
use crate::fcmp::read_envelope;
use crate::settings::LogLevel;

/// Shows the raw output or the prompt of a run's engine
///
/// Into a file or a pipe, output is printed byte for byte as the engine wrote it. On a terminal, characters that would control
/// the terminal are shown as �.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner logs 0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7 --stream stderr --follow")]
pub(crate) struct Args {
    /// Request id or run id
    id: String,
    /// Which text to show
    #[arg(long, value_enum, default_value_t = Stream::Stdout)]
    stream: Stream,
    /// Keep printing until the run ends
    #[arg(long, conflicts_with = "json")]
    follow: bool,
    /// Print all texts as one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

/// One text of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Stream {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
    /// What the engine was asked to do
    Prompt,
}

pub(crate) fn logs(global: &Global, args: &Args) -> Result<(), Failure> {
    let name = match args.stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
        Stream::Prompt => "prompt",
    };
    if args.follow && args.stream == Stream::Prompt {
        return Err(Failure::Usage("--follow works with --stream stdout or stderr, not with the prompt".to_owned()));
    }
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let client = service(&settings, args.server.as_deref())?;
    let run = run_of(&client, &args.id)?;
    if args.json {
        return output::json(&client.get(&format!("/jobs/{run}/logs"))?);
    }
    if args.stream == Stream::Prompt {
        let texts = client.get(&format!("/jobs/{run}/logs"))?;
        let mut shown = Shown::on_stdout();
        shown.write(texts["prompt"].as_str().unwrap_or_default().as_bytes())?;
        return shown.end();
    }
    let mut tail = Tail { client: &client, run, name, at: 0, shown: Shown::on_stdout() };
    tail.catch_up()?;
    if args.follow {
        event_stream::follow(&client, run, |event| {
            let raw = read_envelope(&event).ok().and_then(|envelope| envelope.raw_ref);
            if raw.is_some_and(|raw| raw.stream.as_str() == name && raw.byte_to > tail.at) {
                tail.catch_up()?;
            }
            Ok(true)
        })?;
        tail.catch_up()?;
    }
    tail.shown.end()
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

/// A stream, shown up to a place.
struct Tail<'a> {
    client: &'a Client,
    run: RunId,
    name: &'a str,
    at: u64,
    shown: Shown,
}

impl Tail<'_> {
    /// Shows what is there and was not shown yet.
    fn catch_up(&mut self) -> Result<(), Failure> {
        loop {
            let (run, name, at) = (self.run, self.name, self.at);
            let range = self.client.get(&format!("/jobs/{run}/logs/range?stream={name}&byte_from={at}"))?;
            let place = |key: &str| range[key].as_u64().unwrap_or_default();
            let bytes = bytes_of(&range)?;
            // A range that would begin inside a character begins before it.
            let known = usize::try_from(at.saturating_sub(place("byte_from"))).unwrap_or_default();
            self.shown.write(bytes.get(known..).unwrap_or_default())?;
            if place("byte_to") <= at {
                return Ok(());
            }
            self.at = place("byte_to");
            if self.at >= place("total_bytes") {
                return Ok(());
            }
        }
    }
}

fn bytes_of(range: &Value) -> Result<Vec<u8>, Failure> {
    let content = range["content"].as_str().unwrap_or_default();
    match range["encoding"].as_str() {
        Some("base64") => STANDARD.decode(content).map_err(Failure::broken("read the service's answer")),
        Some(_) | None => Ok(content.as_bytes().to_vec()),
    }
}
