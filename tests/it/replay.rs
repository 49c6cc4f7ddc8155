//! Recorded turns of every engine, read from their bytes: golden events, golden ends, whatever the chunking.
//!
//! After a change that is meant to alter what is read, `REPLAY_RECORD=1 cargo test --test it replay` writes the
//! goldens anew; review the difference before committing it.

mod mutations;
mod service;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skill_runner::domain::event::Event;
use skill_runner::domain::fact::{Fact, RawRange, Stream};
use skill_runner::domain::outcome::RunError;
use skill_runner::domain::outcome::Usage;
use skill_runner::engine::{
    self, Adapter, EngineAnswer, LINE_MAX, ProcessExit, ReportedEnd, StreamReader, TurnReport, WayOut,
};

/// One recorded turn.
#[derive(Debug, Clone)]
struct Case {
    folder: PathBuf,
    adapter: &'static Adapter,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    exit: ProcessExit,
    resumed_from: Option<String>,
    usage_before: Usage,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq)]
struct Played {
    stdout: Vec<Fact>,
    stderr: Vec<Fact>,
    at_the_end: Vec<Event>,
    report: TurnReport,
    verdict: Result<EngineAnswer, RunError>,
}

fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("replay");
    let mut cases = Vec::new();
    for adapter in engine::adapters() {
        let Ok(folders) = std::fs::read_dir(root.join(adapter.name())) else { continue };
        cases.extend(folders.map(|folder| case(adapter, folder.unwrap().path())));
    }
    cases.sort_by(|a, b| a.folder.cmp(&b.folder));
    assert!(cases.len() >= 150, "only {} recorded turns were found", cases.len());
    cases
}

fn case(adapter: &'static Adapter, folder: PathBuf) -> Case {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let turn: Value = serde_json::from_slice(&read("exit.json")).unwrap();
    let number = |value: &Value| i32::try_from(value.as_i64().unwrap()).unwrap();
    let exit = match &turn["exit"]["code"] {
        Value::Null => ProcessExit::Signal(number(&turn["exit"]["signal"])),
        code => ProcessExit::Code(number(code)),
    };
    Case {
        adapter,
        stdout: read("stdout.raw"),
        stderr: read("stderr.raw"),
        exit,
        resumed_from: turn["resumed_from"].as_str().map(str::to_owned),
        usage_before: turn
            .get("usage_before")
            .map_or_else(Usage::default, |usage| serde_json::from_value(usage.clone()).unwrap()),
        folder,
    }
}

/// Read a turn whose bytes arrive in the pieces that `cut` makes of them.
fn play(case: &Case, cut: impl Fn(&[u8]) -> Vec<usize>) -> Played {
    let mut parser = case.adapter.parser(case.resumed_from.as_deref(), case.usage_before);
    let mut read = |stream, bytes: &[u8]| {
        let mut reader = StreamReader::new(stream, 0, LINE_MAX);
        let mut facts = Vec::new();
        let mut rest = bytes;
        for length in cut(bytes) {
            let (piece, after) = rest.split_at(length);
            reader.push(piece, &mut parser, &mut facts);
            // Time passes between the pieces: an unfinished line must not be torn by it.
            reader.show_unfinished(&mut parser, &mut facts);
            rest = after;
        }
        reader.push(rest, &mut parser, &mut facts);
        reader.flush(&mut parser, &mut facts);
        tiles(stream, bytes, &facts, &case.folder);
        joined(facts)
    };
    let stdout = read(Stream::Stdout, &case.stdout);
    let stderr = read(Stream::Stderr, &case.stderr);
    let at_the_end = parser.finish();
    let report = parser.report().clone();
    let verdict = engine::answer(case.adapter, &report, case.exit, &WayOut::default());
    Played { stdout, stderr, at_the_end, report, verdict }
}

/// Every byte is covered by exactly one fact, and raw text shows the bytes it stands on.
fn tiles(stream: Stream, bytes: &[u8], facts: &[Fact], folder: &Path) {
    let mut at = 0;
    for (range, fact) in facts.iter().filter_map(|fact| Some((fact.raw?, fact))) {
        assert_eq!((range.stream, range.from), (stream, at as u64), "{}", folder.display());
        let to = usize::try_from(range.to).unwrap();
        assert!(to > at, "{}", folder.display());
        if let Event::RawStdout(raw) | Event::RawStderr(raw) = &fact.event {
            assert_eq!(raw.text, String::from_utf8_lossy(&bytes[at..to]), "{}", folder.display());
        }
        at = to;
    }
    assert_eq!(at, bytes.len(), "{}", folder.display());
}

/// Raw neighbours as one: how many there are depends on how the bytes arrived, what they show does not.
fn joined(facts: Vec<Fact>) -> Vec<Fact> {
    let mut joined: Vec<Fact> = Vec::new();
    for fact in facts {
        if let (Some(last), Some(range)) = (joined.last_mut(), fact.raw)
            && let Event::RawStdout(next) | Event::RawStderr(next) = &fact.event
            && let Event::RawStdout(text) | Event::RawStderr(text) = &mut last.event
        {
            text.text.push_str(&next.text);
            last.raw = last.raw.map(|before| RawRange { to: range.to, ..before });
            continue;
        }
        joined.push(fact);
    }
    joined
}

fn event_json(event: &Event) -> Value {
    let mut data = Vec::new();
    event.write_data(&mut data).unwrap();
    json!({ "type": event.type_name(), "data": serde_json::from_slice::<Value>(&data).unwrap() })
}

fn fact_json(fact: &Fact) -> Value {
    let mut shown = event_json(&fact.event);
    shown["bytes"] = fact.raw.map_or(Value::Null, |range| json!([range.from, range.to]));
    shown
}

fn golden(played: &Played) -> Value {
    let report = &played.report;
    json!({
        "verdict": match &played.verdict {
            Ok(EngineAnswer { text, structured }) => json!({ "succeeded": { "text": text, "structured": structured } }),
            Err(error) => json!({ "failed": error }),
        },
        "said_end": match &report.end {
            None => Value::Null,
            Some(ReportedEnd::Succeeded) => json!("succeeded"),
            Some(ReportedEnd::InPlainText) => json!("in_plain_text"),
            Some(ReportedEnd::Failed(failure)) => json!({ "failed": failure.code }),
        },
        "handle": report.handle,
        "usage": report.usage,
        "stdout": played.stdout.iter().map(fact_json).collect::<Vec<_>>(),
        "stderr": played.stderr.iter().map(fact_json).collect::<Vec<_>>(),
        "at_the_end": played.at_the_end.iter().map(event_json).collect::<Vec<_>>(),
    })
}

fn whole(_: &[u8]) -> Vec<usize> {
    Vec::new()
}

#[test]
fn every_recorded_turn_reads_as_its_golden_says() {
    let record = std::env::var_os("REPLAY_RECORD").is_some();
    for case in cases() {
        let read = golden(&play(&case, whole));
        let path = case.folder.join("expected.json");
        if record {
            std::fs::write(&path, format!("{read:#}\n")).unwrap();
        }
        let expected: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, expected, "{}", case.folder.display());
    }
}

#[test]
fn a_turn_reads_the_same_however_its_bytes_arrive() {
    let by_line = |bytes: &[u8]| bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).collect();
    let by_byte = |bytes: &[u8]| vec![1; bytes.len()];
    for (number, case) in cases().iter().enumerate() {
        let expected = play(case, whole);
        assert_eq!(play(case, by_line), expected, "by line: {}", case.folder.display());
        assert_eq!(play(case, by_byte), expected, "by byte: {}", case.folder.display());
        let at_random = |bytes: &[u8]| random_lengths(bytes.len(), number as u64);
        assert_eq!(play(case, at_random), expected, "at random: {}", case.folder.display());
    }
}

/// Lengths that add up to `total` at most, the same ones at each run of the tests.
fn random_lengths(total: usize, seed: u64) -> Vec<usize> {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut left = total;
    let mut lengths = Vec::new();
    while left > 0 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = usize::try_from(state >> 33).unwrap() % 700 % (left + 1);
        lengths.push(length);
        left -= length;
        if lengths.len() > 10_000 {
            break;
        }
    }
    lengths
}

/// A recorded turn by engine and case.
fn recorded(engine: &str, name: &str) -> Case {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("replay");
    case(engine::adapter_named(engine).unwrap(), root.join(engine).join(name))
}

fn code_of(verdict: &Result<EngineAnswer, RunError>) -> &str {
    match verdict {
        Ok(_) => "succeeded",
        Err(error) => &error.code,
    }
}

#[test]
fn the_ends_that_deceive_are_seen_through() {
    for (engine, name, code) in [
        ("gemini", "d_sigterm_toolrun_norelaunch", "ENGINE_FAILED"),
        ("gemini", "c_http_401", "ENGINE_AUTH_REQUIRED"),
        ("gemini", "c_http_429_maxattempts1", "ENGINE_RATE_LIMITED"),
        ("gemini", "a0_no_settings", "ENGINE_AUTH_REQUIRED"),
        ("gemini", "r3_resume_other_cwd", "SESSION_RESUME_FAILED"),
        ("claude", "d_sigint_modelwait", "ENGINE_FAILED"),
        ("claude", "c_http_429_maxretries1", "ENGINE_RATE_LIMITED"),
        ("claude", "c_http_401_maxretries1", "ENGINE_AUTH_REQUIRED"),
        ("claude", "r4_resume_invalid_uuid", "SESSION_RESUME_FAILED"),
        ("codex", "c_http_401", "ENGINE_AUTH_REQUIRED"),
        ("codex", "c_http_429", "ENGINE_RATE_LIMITED"),
        ("codex", "c_http_500", "ENGINE_FAILED"),
        ("codex", "r4_resume_invalid_uuid", "SESSION_RESUME_FAILED"),
        ("codex", "s5_no_json", "ENGINE_FAILED"),
        ("opencode", "c_http_401", "ENGINE_AUTH_REQUIRED"),
        ("opencode", "c_http_429_long", "ENGINE_RATE_LIMITED"),
        ("opencode", "r4_resume_invalid", "SESSION_RESUME_FAILED"),
        ("qwen", "c_http_401", "ENGINE_AUTH_REQUIRED"),
        ("qwen", "r4_resume_invalid_uuid", "SESSION_RESUME_FAILED"),
        ("qwen", "s1_json_schema", "succeeded"),
    ] {
        assert_eq!(code_of(&play(&recorded(engine, name), whole).verdict), code, "{engine}/{name}");
    }
}

#[test]
fn a_resumed_turn_that_comes_back_with_another_session_has_failed() {
    let other = "00000000-0000-4000-8000-000000000000";
    for engine in ["codex", "claude", "gemini", "qwen", "opencode"] {
        let case = Case { resumed_from: Some(other.to_owned()), ..recorded(engine, "r1_first") };
        let played = play(&case, whole);
        assert_eq!(code_of(&played.verdict), "SESSION_RESUME_FAILED", "{engine}");
        // The runner need not wait for a turn that has lost its conversation.
        assert!(matches!(played.report.end, Some(ReportedEnd::Failed(_))), "{engine}");
        assert!(!played.stdout.iter().any(|fact| matches!(fact.event, Event::SessionBound(_))), "{engine}");
    }
}

#[test]
fn an_engine_dismissed_after_its_end_has_succeeded_and_one_that_broke_after_it_has_not() {
    for engine in ["codex", "claude", "gemini", "qwen", "opencode"] {
        let ended_by = |exit| play(&Case { exit, ..recorded(engine, "b_tool_then_json") }, whole).verdict;
        let succeeded = ended_by(ProcessExit::Code(0));
        let text = r#"{"status":"ok","artifact":"artifacts/notes.md"}"#.to_owned();
        assert_eq!(succeeded, Ok(EngineAnswer { text, structured: None }), "{engine}");
        assert_eq!(ended_by(ProcessExit::Dismissed), succeeded, "{engine}");
        for broken in [ProcessExit::Code(1), ProcessExit::Signal(9), ProcessExit::Unknown] {
            assert_eq!(code_of(&ended_by(broken)), "ENGINE_FAILED", "{engine} {broken:?}");
        }
    }
}
