//! `reparse`: parses a stored run's raw bytes again and compares the events with the log. Nothing is changed.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};

use crate::bounded;
use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::output;
use crate::domain::codes::Exit;
use crate::domain::engine::Engine;
use crate::domain::event::Event;
use crate::domain::fact::{Fact, Stream};
use crate::domain::ids::{RunId, Seq};
use crate::domain::outcome::Usage;
use crate::domain::run_file::RunFile;
use crate::engine::{self, LINE_MAX, LineParser, StreamReader, script};
use crate::fcmp::{Envelope, read_envelope};
use crate::files::{for_each_chunk, open_regular};
use crate::settings::LogLevel;
use crate::workspace::{Layout, RunPaths};

/// Parses a run's raw output again with this version and shows how the events differ from its log
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Lines with - are events of the log; lines with + are what this version's parser makes of the same bytes.
Exit status 1 if there is a difference.

Example:
  skill-runner reparse last";

/// An event, and the bytes of a stream that it was made of.
#[derive(Debug, Clone, PartialEq)]
struct Standing {
    stream: Stream,
    from: u64,
    to: u64,
    type_name: String,
    data: Value,
}

/// One turn of the engine, as the log has it.
#[derive(Debug, Default)]
struct LoggedTurn {
    resumed_from: Option<String>,
    usage_before: Usage,
    standing: Vec<Standing>,
}

pub(crate) fn reparse(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let runs = Runs::open(&settings, None)?;
    let run = runs.resolve(&args.id)?;
    let (engine, turns) = read_log(&runs, run)?;
    let paths = Layout::new(&settings.paths.data_dir).run(run);
    let mut differences = Vec::new();
    for (attempt, turn) in &turns {
        let now = read_bytes(&engine, turn, &paths, settings.limits.max_log_bytes)?;
        let logged = joined(turn.standing.clone());
        let gone = logged.iter().filter(|standing| !now.contains(standing)).map(|standing| ("-", standing.clone()));
        let new = now.iter().filter(|standing| !logged.contains(standing)).map(|standing| ("+", standing.clone()));
        let mut changed: Vec<(&str, Standing)> = gone.chain(new).collect();
        changed.sort_by_key(|(sign, standing)| (standing.stream, standing.from, *sign == "+"));
        differences.extend(changed.into_iter().map(|(sign, standing)| (*attempt, sign, standing)));
    }
    say(args, run, &differences)
}

fn say(args: &Args, run: RunId, differences: &[(u32, &str, Standing)]) -> Result<(), Failure> {
    if args.json {
        let shown: Vec<Value> = differences
            .iter()
            .map(|(attempt, sign, standing)| {
                json!({"attempt": attempt, "sign": sign, "stream": standing.stream, "byte_from": standing.from,
                    "byte_to": standing.to, "type": standing.type_name, "data": standing.data})
            })
            .collect();
        output::json(&json!({"run_id": run, "differences": shown}))?;
    } else if differences.is_empty() {
        output::line("no difference: this version's parser makes the same events of the raw bytes")?;
    }
    if !args.json {
        for (attempt, sign, standing) in differences {
            let Standing { stream, from, to, type_name, data } = standing;
            let stream = stream.as_str();
            output::line(&format!("{sign} turn {attempt} {stream} {from}..{to} {type_name} {data}"))?;
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(Failure::Reported(Exit::Failed)) }
}

/// The run's engine, and the events of each turn in the log.
fn read_log(runs: &Runs, run: RunId) -> Result<(String, BTreeMap<u32, LoggedTurn>), Failure> {
    let mut engine = String::new();
    let mut turns: BTreeMap<u32, LoggedTurn> = BTreeMap::new();
    let mut used = Usage::default();
    runs.events(run, Seq(1), None, |bytes| {
        let envelope = read_envelope(bytes).map_err(|error| Failure::Broken(format!("read an event: {error}")))?;
        engine.clone_from(&envelope.engine);
        match &envelope.event {
            Some(Event::TurnStarted(turn)) => {
                let logged = turns.entry(turn.attempt).or_default();
                logged.resumed_from.clone_from(&turn.resumed_from);
                logged.usage_before = used;
            }
            Some(Event::UsageReported(usage)) => used = used.plus(*usage),
            Some(_) | None => {}
        }
        if let Some(standing) = standing_of(&envelope, bytes)? {
            turns.entry(envelope.meta.attempt).or_default().standing.push(standing);
        }
        Ok(())
    })?;
    Ok((engine, turns))
}

fn standing_of(envelope: &Envelope, bytes: &[u8]) -> Result<Option<Standing>, Failure> {
    let Some(raw) = &envelope.raw_ref else { return Ok(None) };
    let mut whole: Value = bounded::json::from_slice(bytes).map_err(Failure::broken("read an event"))?;
    Ok(Some(Standing {
        stream: raw.stream,
        from: raw.byte_from,
        to: raw.byte_to,
        type_name: envelope.type_name.clone(),
        data: whole["data"].take(),
    }))
}

/// What the parser of this version makes of a turn's bytes.
fn read_bytes(engine: &str, turn: &LoggedTurn, paths: &RunPaths, most: u64) -> Result<Vec<Standing>, Failure> {
    let mut parser: Box<dyn LineParser> = match engine::adapter_named(engine) {
        Some(adapter) => Box::new(adapter.parser(turn.resumed_from.as_deref(), turn.usage_before)),
        None => Box::new(script::ScriptParser::default()),
    };
    let line_max = if engine == Engine::Script.as_str() { script::LINE_MAX } else { LINE_MAX };
    let mut standing = Vec::new();
    for (stream, path) in [(Stream::Stdout, paths.file(RunFile::Stdout)), (Stream::Stderr, paths.file(RunFile::Stderr))]
    {
        let ranges = || turn.standing.iter().filter(|standing| standing.stream == stream);
        let (Some(from), Some(to)) = (ranges().map(|s| s.from).min(), ranges().map(|s| s.to).max()) else { continue };
        let mut facts = Vec::new();
        let mut reader = StreamReader::new(stream, from, line_max);
        read_range(&path, from..to, most, |bytes| reader.push(bytes, parser.as_mut(), &mut facts))?;
        reader.flush(parser.as_mut(), &mut facts);
        for fact in &facts {
            standing.extend(standing_on(fact)?);
        }
    }
    Ok(joined(standing))
}

/// Reads a part of a stream, which the engine may have replaced by anything. An event may name any range.
fn read_range(path: &Path, range: Range<u64>, most: u64, mut each: impl FnMut(&[u8])) -> Result<(), Failure> {
    let broken = || Failure::broken(format!("read {}", path.display()));
    let length = range.end.saturating_sub(range.start);
    if length > most {
        return Err(Failure::Broken(format!(
            "read {}: the log names {length} bytes of it, and max_log_bytes is {most}\n  \
             raise max_log_bytes if the run was made with more",
            path.display()
        )));
    }
    let mut file = open_regular(path).map_err(|error| broken()(error.source))?;
    file.seek(SeekFrom::Start(range.start)).map_err(broken())?;
    let mut read = 0;
    for_each_chunk(file.take(length), broken(), |chunk| {
        read += chunk.len() as u64;
        each(chunk);
        Ok(())
    })?;
    if read == length {
        Ok(())
    } else {
        Err(Failure::Broken(format!("{} is shorter than the log records", path.display())))
    }
}

fn standing_on(fact: &Fact) -> Result<Option<Standing>, Failure> {
    let Some(raw) = fact.raw else { return Ok(None) };
    let mut data = Vec::new();
    fact.event.write_data(&mut data).map_err(Failure::broken("write an event"))?;
    Ok(Some(Standing {
        stream: raw.stream,
        from: raw.from,
        to: raw.to,
        type_name: fact.event.type_name().to_owned(),
        data: bounded::json::from_slice(&data).map_err(Failure::broken("write an event"))?,
    }))
}

/// Raw neighbours as one: where raw text was cut depends on how the bytes arrived.
fn joined(mut standing: Vec<Standing>) -> Vec<Standing> {
    standing.sort_by_key(|standing| (standing.stream, standing.from));
    let mut whole: Vec<Standing> = Vec::new();
    for next in standing {
        if let Some(last) = whole.last_mut()
            && next.type_name.starts_with("raw.")
            && last.type_name == next.type_name
            && last.to == next.from
        {
            if let Some(Value::String(text)) = last.data.get_mut("text") {
                text.push_str(text_of(&next));
            }
            last.to = next.to;
            continue;
        }
        whole.push(next);
    }
    whole
}

fn text_of(standing: &Standing) -> &str {
    standing.data["text"].as_str().unwrap_or_default()
}
