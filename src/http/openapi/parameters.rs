//! The parameters of routes: parts of paths, query parameters and headers, each with its schema and an example.

use serde_json::{Value, json};

use crate::http::openapi::shape::reference;
use crate::http::server::route_table::Route;

const ID: &str = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";
const TIME: &str = "2026-03-01T09:30:00Z";

/// All parameters of a route that reads these headers.
pub(super) fn of(route: &Route, headers: &[&str]) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = in_path.map(|name| part_of_path(name.trim_start_matches('*'), &route.path)).collect();
    all.extend(route.parameters.unwrap_or_default().iter().map(|name| query(name, &route.path)));
    all.extend(headers.iter().chain(&["X-Request-Id"]).map(|name| header(name)));
    all
}

fn part_of_path(name: &str, path: &str) -> Value {
    let of_skill = path.contains("/skills/");
    let (about, schema, example) = match name {
        "id" if of_skill => ("The skill's id.", json!({"type": "string", "minLength": 1}), "demo-echo"),
        "id" if path.contains("/skill-packages/") => ("The request id of the installation.", reference("Uuid"), ID),
        "id" if path.contains("/nodes/") => ("The service's id.", reference("Uuid"), ID),
        "id" if path.contains("/upgrades/") => ("The upgrade's id.", reference("Uuid"), ID),
        "id" => ("The request id or the run id of the run.", reference("Uuid"), ID),
        "engine" => ("The engine's name.", reference("Engine"), "script"),
        _ if path.contains("/artifacts/") => {
            ("The artifact's path, which begins with artifacts/ and may hold slashes.", text(), "artifacts/a.md")
        }
        _ => ("A path below this one; it may hold slashes.", text(), "app.js"),
    };
    json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema, "example": example})
}

fn text() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn whole(least: u64) -> Value {
    json!({"type": "integer", "minimum": least})
}

fn query(name: &str, path: &str) -> Value {
    let limit = |most: u64, usual: u64| json!({"type": "integer", "minimum": 1, "maximum": most, "default": usual});
    let time = || json!({"type": "string", "format": "date-time"});
    let preview = path.ends_with("/file");
    let (about, schema, example) = match name {
        "status" => ("Only runs of this status.", reference("RunStatus"), json!("failed")),
        "skill_id" => ("Only runs of this skill.", json!({"type": "string"}), json!("demo-echo")),
        "engine" => ("Only runs on this engine.", json!({"type": "string"}), json!("script")),
        "label" => (
            "Only runs with this label: its name, a colon and its value. Several must all be there.",
            json!({"type": "array", "items": {"type": "string", "pattern": "^[^:]*:"}}),
            json!(["team:x"]),
        ),
        "since" => ("Only runs created then or later.", time(), json!(TIME)),
        "until" => ("Only runs created before then.", time(), json!(TIME)),
        "before" => ("The next_before of the page before.", reference("Uuid"), json!(ID)),
        "limit" if path.ends_with("/history") => (
            "Most events of the answer; for lines there is no limit unless one is given.",
            limit(10_000, 1_000),
            json!(100),
        ),
        "limit" => ("Most runs of the answer.", limit(500, 50), json!(20)),
        "wait" => (
            "Seconds to hold the answer back until the work has ended; more than 600 are cut to that.",
            whole(0),
            json!(0),
        ),
        "at_seq" => ("The run as it was after this event.", whole(0), json!(1)),
        "cursor" => ("The id of the last event that was received; 0 for all.", whole(0), json!(0)),
        "ticket" => (
            "A ticket of the run, in the place of a token; for the EventSource of a page of another origin.",
            json!({"type": "string"}),
            json!("st_0kq8m4M0Zq2e5mOe5qv0l0p8XG3s7Yw9d1nR6uT4bHc"),
        ),
        "from_seq" => ("The first event.", whole(0), json!(1)),
        "to_seq" => ("The last event.", whole(0), json!(100)),
        "from_ts" => ("Only events from then on.", time(), json!(TIME)),
        "to_ts" => ("Only events up to then.", time(), json!("2026-03-01T10:30:00Z")),
        "stream" => ("Which output.", json!({"type": "string", "enum": ["stdout", "stderr", "pty"]}), json!("stdout")),
        "byte_from" => ("The first byte.", whole(0), json!(0)),
        "byte_to" => ("The byte after the last; beyond the end, the end.", whole(0), json!(100)),
        "path" if path.contains("/skills/") => {
            ("The file's path in the package.", json!({"type": "string"}), json!("SKILL.md"))
        }
        "version" => {
            ("Another version than the one in place, as for a rollback.", json!({"type": "string"}), json!("1.0.0"))
        }
        "from" => {
            ("The earlier version, or the beginning of its fingerprint.", json!({"type": "string"}), json!("1.0.0"))
        }
        "to" => ("The later one; the one in place if it is left out.", json!({"type": "string"}), json!("1.1.0")),
        "path" if preview => {
            ("The file's path in the run's folder.", json!({"type": "string"}), json!("artifacts/a.md"))
        }
        "path" => ("A JSON pointer into the result.", json!({"type": "string"}), json!("/data")),
        // A test refuses parameters without a description.
        _ => ("", json!({}), Value::Null),
    };
    let required = name == "stream" || name == "from" || (name == "path" && preview);
    json!({"name": name, "in": "query", "required": required, "description": about, "schema": schema, "example": example})
}

fn header(name: &str) -> Value {
    let visible = || json!({"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[!-~]+$"});
    let any = || json!({"type": "string"});
    let (about, schema, example) = match name {
        "Idempotency-Key" => {
            ("The same key and body get the first answer again; another body is refused.", visible(), "order-17")
        }
        "traceparent" => (
            "The trace that the request belongs to (W3C Trace Context); the run's spans become a part of it.",
            any(),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
        "Prefer" => ("wait=30 is the same as the parameter wait=30.", any(), "wait=0"),
        "Last-Event-ID" => ("The same as cursor; the larger of the two counts.", whole(0), "0"),
        "Range" => ("The bytes that are wanted.", any(), "bytes=0-99"),
        "If-Range" => ("The ETag for which Range is meant.", any(), "\"9f86d081884c7d65\""),
        "If-None-Match" => ("The ETags that the client has.", any(), "\"9f86d081884c7d65\""),
        "X-Request-Id" => (
            "An id for this request, for the service's log and the answer: 1 to 128 visible ASCII characters, else one is made up.",
            any(),
            "7f3c2a",
        ),
        // A test refuses parameters without a description.
        _ => ("", json!({}), ""),
    };
    json!({"name": name, "in": "header", "required": false, "description": about, "schema": schema, "example": example})
}
