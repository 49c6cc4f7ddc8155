//! Logs as traces.

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::domain::request::ExecutionMode;
use crate::domain::samples;

const RUN: &str = "00000000000000000000000000000007";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(0).plus_seconds(seconds)
}

fn read(name: &str, data: serde_json::Value) -> Event {
    Event::read(name, &data.to_string()).unwrap().unwrap()
}

fn moved(from: &str, to: &str, trigger: &str) -> Event {
    let data = json!({"from": from, "to": to, "trigger": trigger, "updated_at": at(0), "pending_interaction_id": null});
    read("conversation.state.changed", data)
}

fn tool(name: &str) -> Event {
    let data = json!({"call_id": "c", "tool": name, "input": {"secret": 1}, "output": "o", "status": "completed"});
    read("assistant.tool_call", data)
}

fn turn(attempt: u32) -> Event {
    let data = json!({
        "attempt": attempt, "command": ["x"], "pid": 5, "engine_version": "1.2", "parser_version": "1",
        "isolation": "none", "resumed_from": null,
    });
    read("turn.started", data)
}

fn failed() -> Event {
    let proof = json!({"events": 1, "chain_sha256": "", "streams": {}, "artifacts_sha256": ""});
    let data = json!({
        "status": "failed", "error": {"code": "TIMEOUT", "message": "m", "details": {}},
        "usage": {"input_tokens": 3, "cached_input_tokens": 0, "output_tokens": 4, "cost_usd": 0.5}, "proof": proof,
    });
    read("conversation.failed", data)
}

fn usage() -> Event {
    read("usage.reported", json!({"input_tokens": 3, "cached_input_tokens": 0, "output_tokens": 4, "cost_usd": 0.5}))
}

fn trace(traceparent: Option<&str>, events: &[(u64, Event)]) -> Vec<Span> {
    let mut builder = TraceBuilder::new(RunId(Uuid::from_u128(7)));
    let mut started = samples::started(ExecutionMode::Auto, false, false);
    started.traceparent = traceparent.map(Into::into);
    builder.push(Seq(1), at(0), &Event::Started(Box::new(started)));
    for (n, (seconds, event)) in events.iter().enumerate() {
        builder.push(Seq(n as u64 + 2), at(*seconds), event);
    }
    builder.finish()
}

fn run() -> Vec<(u64, Event)> {
    vec![
        (2, moved("queued", "running", "turn.started")),
        (2, turn(1)),
        (5, tool("read")),
        (6, usage()),
        (9, tool("write")),
        (10, failed()),
    ]
}

/// Name, parent, from and to of each span.
fn shape(spans: &[Span]) -> Vec<(String, Option<String>, Timestamp, Timestamp)> {
    let name_of =
        |id: &str| spans.iter().find(|span| span.span_id == id).map_or(id.to_owned(), |span| span.name.clone());
    let parent = |span: &Span| span.parent_id.as_deref().map(name_of);
    spans.iter().map(|span| (span.name.clone(), parent(span), span.from, span.to)).collect()
}

#[test]
fn a_run_is_one_trace_with_its_queue_its_attempts_and_their_tools() {
    let spans = trace(None, &run());
    let child = |name: &str, parent: &str, from, to| (name.to_owned(), Some(parent.to_owned()), at(from), at(to));
    let expected = [
        ("run demo".to_owned(), None, at(0), at(10)),
        child("queue", "run demo", 0, 2),
        child("tool read", "attempt 1", 2, 5),
        child("tool write", "attempt 1", 6, 9),
        child("attempt 1", "run demo", 2, 10),
    ];
    assert_eq!(shape(&spans), expected);
    assert!(spans.iter().all(|span| span.trace_id == RUN && span.span_id.len() == 16));
    assert_eq!(spans[0].outcome, Outcome::Error("TIMEOUT".into()));
    let told = |key: &str| spans[0].attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone());
    assert_eq!(told("gen_ai.usage.output_tokens"), Some(Attribute::Whole(4)));
    assert_eq!(told("skill_runner.cost_usd"), Some(Attribute::Real(0.5)));
    assert_eq!(told("error.type"), Some(Attribute::Text("TIMEOUT".into())));
    // What a tool was given may be a secret.
    assert!(!format!("{spans:?}").contains("secret"));
}

#[test]
fn the_trace_of_the_request_is_the_one_of_the_run() {
    let spans = trace(Some(PARENT), &run());
    assert!(spans.iter().all(|span| span.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"));
    assert_eq!(spans[0].parent_id.as_deref(), Some("00f067aa0ba902b7"));
    assert_eq!(trace(Some(&PARENT.replace("-01", "-00")), &run()), [], "the caller does not record it");
}

#[test]
fn a_run_that_has_not_ended_is_no_trace_and_one_with_many_tools_stays_bounded() {
    assert_eq!(trace(None, &run()[..4]), []);
    let mut many = run();
    let end = many.pop().unwrap();
    many.extend((0..DETAILS_MAX + 50).map(|_| (9, tool("x"))));
    many.push(end);
    let spans = trace(None, &many);
    assert_eq!(spans.len(), DETAILS_MAX + 3);
    assert_eq!(spans[0].attributes.last(), Some(&("skill_runner.left_out", Attribute::Whole(52))));
}

#[test]
fn spans_are_written_as_otlp_has_them() {
    let body = otlp(&trace(None, &run()), &resource("s", "i"));
    let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    assert_eq!(spans[0]["traceId"], RUN);
    assert_eq!(spans[0]["status"], json!({"code": 2, "message": "TIMEOUT"}));
    assert_eq!(spans[0].get("parentSpanId"), None);
    assert_eq!((&spans[1]["startTimeUnixNano"], &spans[1]["endTimeUnixNano"]), (&json!("0"), &json!("2000000000")));
    assert_eq!(spans[1]["parentSpanId"], spans[0]["spanId"]);
    let service = json!({"key": "service.name", "value": {"stringValue": "s"}});
    assert_eq!(body["resourceSpans"][0]["resource"]["attributes"][0], service);
}
