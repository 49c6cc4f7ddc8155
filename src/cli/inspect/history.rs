//! `history`: the events of a run.

use std::io::{self, BufWriter};

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bounded;
use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::event_line::summary;
use crate::cli::terminal::fold::wrapped;
use crate::cli::terminal::look::{Ink, Look, columns, one_line};
use crate::cli::terminal::output;
use crate::domain::ids::{RunId, Seq};
use crate::fcmp::read_envelope;
use crate::settings::LogLevel;

/// How far what a terminal has no room for is indented: behind the numbers of events.
const HANG: usize = 7;
/// Longest name of a type of events.
const TYPE_MAX: usize = 100;
/// Most bytes of events in one document. A service could send them without end.
const DOCUMENT_MAX: usize = 64 << 20;

/// Shows the events of a run
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner history last --from-seq 5")]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// Print the stored bytes, one event per line
    #[arg(long, conflicts_with = "json")]
    ndjson: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// First event to show
    #[arg(long, value_name = "SEQ", default_value_t = 1, hide_default_value = true)]
    from_seq: u64,
    /// Last event to show
    #[arg(long, value_name = "SEQ")]
    to_seq: Option<u64>,
    /// URL of the service to ask [default: the running service of the data directory, else the store]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn history(global: &Global, args: &Args) -> Result<(), Failure> {
    if args.to_seq.is_some_and(|to| to < args.from_seq) {
        return Err(Failure::Usage("--to-seq must not be before --from-seq".to_owned()));
    }
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let runs = Runs::open(&settings, args.server.as_deref())?;
    let run = runs.resolve(&args.id)?;
    let (from, to) = (Seq(args.from_seq), args.to_seq.map(Seq));
    let look = Look::of(&io::stdout());
    let mut out = BufWriter::new(io::stdout().lock());
    let mut document = Document { run_id: run, count: 0, events: Vec::new() };
    let mut bytes = 0;
    runs.events(run, from, to, |event| {
        if args.ndjson {
            output::bytes(&mut out, event)?;
            output::bytes(&mut out, b"\n")
        } else if args.json {
            bytes += event.len();
            if bytes > DOCUMENT_MAX {
                return Err(too_many());
            }
            document.add(event)
        } else {
            output::bytes(&mut out, human(event, look).as_bytes())
        }
    })?;
    if args.json {
        output::json(&document)?;
    }
    output::flushed(&mut out)
}

fn too_many() -> Failure {
    Failure::Broken(format!(
        "the events have more than {DOCUMENT_MAX} bytes, too many for one document; --ndjson prints any number"
    ))
}

/// The events as one document. They are kept as text: values would take many times the room.
#[derive(Serialize)]
struct Document {
    run_id: RunId,
    count: usize,
    events: Vec<Stored>,
}

struct Stored(Box<str>);

impl Document {
    fn add(&mut self, event: &[u8]) -> Result<(), Failure> {
        let text: &RawValue = bounded::json::from_slice(event).map_err(Failure::broken("read an event"))?;
        self.count += 1;
        self.events.push(Stored(text.get().into()));
        Ok(())
    }
}

impl Serialize for Stored {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        bounded::json::from_str::<Value>(&self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

fn human(event: &[u8], look: Look) -> String {
    match read_envelope(event) {
        Ok(envelope) => {
            let time = look.paint(Ink::Dim, &envelope.ts.to_string());
            let name = one_line(&envelope.type_name, TYPE_MAX);
            let line = format!("{:>5}  {time}  {name:<27} {}", envelope.seq.0, summary(&envelope));
            format!("{}\n", if look.live { wrapped(&line, columns(&io::stdout()), HANG) } else { line })
        }
        Err(error) => format!("    ?  {}\n", look.paint(Ink::Bad, &error.to_string())),
    }
}
