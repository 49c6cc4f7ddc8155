//! The lines of each engine.

use super::{about, way};
use crate::domain::engine::Engine;
use crate::domain::fact::{Fact, Stream};
use crate::domain::outcome::Usage;
use crate::engine::script::ScriptParser;
use crate::engine::{LINE_MAX, LineParser, StreamReader, adapter};
use crate::store::MAX_APPEND_BYTES;

pub(super) const WORDS: &[&str] = &[
    "\n",
    "\r\n",
    "\u{1b}[31m",
    "\"type\":",
    "\"result\"",
    "\"assistant\"",
    "\"user\"",
    "\"system\"",
    "\"message\":",
    "\"content\":",
    "\"text\":",
    "\"tool_use\"",
    "\"tool_result\"",
    "\"id\":",
    "\"session_id\":",
    "\"thread_id\":",
    "\"usage\":",
    "\"input_tokens\":",
    "\"output_tokens\":",
    "\"cost\":",
    "\"error\":",
    "\"is_error\":true",
    "\"turn.completed\"",
    "\"turn.failed\"",
    "\"item.completed\"",
    "\"command_execution\"",
    "\"exit_code\":",
    "\"aggregated_output\":",
    "\"delta\":true",
    "\"role\":\"assistant\"",
    "\"part\":",
    "\"step_finish\"",
    "\"structured_output\":",
    "\"permission_denials\":",
    "\"subtype\":",
    "\"init\"",
    "null",
    "true",
    "-1",
    "1e999",
    "18446744073709551616",
    "[]",
    "{}",
    "\\u0000",
    "\\ud800",
    "50% half",
    "100%",
    "<Execution Info>",
    "</Execution Info>",
    "\"success\":true",
    "\"data\":",
];

/// A turn whose standard output is these bytes; those behind a zero byte are its standard error.
pub(super) fn agent(engine: Engine, bytes: &[u8]) -> u64 {
    let adapter = adapter(engine).unwrap();
    let used = Usage { input_tokens: 10, cached_input_tokens: 5, output_tokens: 3, cost_usd: Some(0.1) };
    let mut ways = Vec::new();
    for resumed in [None, Some("a-session")] {
        let read = |size: usize| {
            let mut parser = adapter.parser(resumed, used);
            let facts = read_all(bytes, size, &mut parser, LINE_MAX);
            let last: Vec<Fact> = parser.finish().into_iter().map(Fact::own).collect();
            let report = format!("{:?}", parser.report());
            (facts, last, report)
        };
        let whole = read(bytes.len().max(1));
        check(&whole.0, &whole.1);
        // However the bytes are cut, the same is understood.
        let cut = read(7);
        let meaning = |facts: &[Fact]| {
            let meant = facts.iter().filter(|fact| !fact.event.type_name().starts_with("raw."));
            meant.map(|fact| (fact.event.clone(), fact.raw)).collect::<Vec<_>>()
        };
        assert_eq!(meaning(&whole.0), meaning(&cut.0));
        assert_eq!((&whole.1, &whole.2), (&cut.1, &cut.2));
        let types: Vec<&str> = whole.0.iter().chain(&whole.1).map(|fact| fact.event.type_name()).take(12).collect();
        ways.push((types, about(whole.2.len())));
    }
    way(ways)
}

pub(super) fn script(bytes: &[u8]) -> u64 {
    let mut parser = ScriptParser::default();
    let facts = read_all(bytes, bytes.len().max(1), &mut parser, crate::engine::script::LINE_MAX);
    check(&facts, &[]);
    let answered = parser.answered();
    let mut parser = ScriptParser::default();
    read_all(bytes, 5, &mut parser, crate::engine::script::LINE_MAX);
    assert_eq!(parser.answered(), answered);
    let types: Vec<&str> = facts.iter().map(|fact| fact.event.type_name()).take(12).collect();
    way((types, answered))
}

fn read_all(bytes: &[u8], size: usize, parser: &mut dyn LineParser, line_max: usize) -> Vec<Fact> {
    let mut facts = Vec::new();
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (stdout, stderr) = bytes.split_at(at);
    for (stream, bytes) in [(Stream::Stderr, stderr), (Stream::Stdout, stdout)] {
        let mut reader = StreamReader::new(stream, 0, line_max);
        for chunk in bytes.chunks(size) {
            reader.push(chunk, parser, &mut facts);
        }
        reader.flush(parser, &mut facts);
        let covered = facts.iter().filter_map(|fact| fact.raw).filter(|raw| raw.stream == stream);
        let mut end = 0;
        for raw in covered {
            assert_eq!(raw.from, end, "facts tile the stream");
            assert!(raw.to >= raw.from);
            end = raw.to;
        }
        assert_eq!(end, bytes.len() as u64, "every byte is told of");
    }
    facts
}

/// Every event can be written, and none is longer than what one append may carry.
fn check(facts: &[Fact], last: &[Fact]) {
    for fact in facts.iter().chain(last) {
        let mut data = Vec::new();
        fact.event.write_data(&mut data).unwrap();
        assert!(data.len() < MAX_APPEND_BYTES, "{} of {} bytes", fact.event.type_name(), data.len());
    }
}
