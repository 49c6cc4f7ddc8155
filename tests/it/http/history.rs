//! History: windows by seq and time, pages, and the stored bytes as they are.

use serde_json::{Value, json};

use crate::support::Server;

const CHATTY: &str = "cat >/dev/null\ni=0\nwhile [ $i -lt 40 ]; do i=$((i+1)); echo \"$i% step\" >&2; done\n\
    echo '{\"success\":true,\"data\":{}}'\n";

struct Recorded {
    server: Server,
    request: String,
    run: String,
    lines: Vec<String>,
    events: Vec<Value>,
}

fn recorded() -> Recorded {
    let server = Server::start();
    server.skill("chatty", CHATTY, json!({}));
    let (request, run) = server.finished("chatty");
    let answer =
        server.call("GET", &format!("/v1/jobs/{run}/events/history")).header("accept", "application/x-ndjson").send();
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    let lines: Vec<String> = answer.text().lines().map(str::to_owned).collect();
    let events = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    Recorded { server, request, run, lines, events }
}

impl Recorded {
    fn page(&self, query: &str) -> Value {
        self.server.get(&format!("/v1/jobs/{}/events/history?{query}", self.request)).json()
    }

    fn expect(&self, events: &[Value], next_seq: Value) -> Value {
        json!({
            "request_id": self.request, "run_id": self.run, "count": events.len(), "events": events,
            "next_seq": next_seq,
        })
    }
}

#[test]
fn history_hands_out_the_stored_bytes() {
    let recorded = recorded();
    let answer = recorded.server.get(&format!("/v1/jobs/{}/events/history", recorded.run));
    assert_eq!(answer.header("content-type"), "application/json");
    let text = answer.text();
    let events = format!("\"events\":[{}]", recorded.lines.join(","));
    assert!(text.contains(&events), "{text}");
    assert_eq!(answer.json(), recorded.expect(&recorded.events, Value::Null));
    recorded.server.drain();
    let sealed = std::fs::read_to_string(recorded.server.run_dir(&recorded.run).join("logs/events.jsonl")).unwrap();
    assert_eq!(sealed.lines().collect::<Vec<_>>(), recorded.lines);
}

#[test]
fn windows_by_seq_are_inclusive() {
    let recorded = recorded();
    let head = recorded.events.len();
    for (query, range) in [
        ("from_seq=3".to_owned(), 2..head),
        ("from_seq=0&to_seq=1".to_owned(), 0..1),
        ("to_seq=5".to_owned(), 0..5),
        ("to_seq=0".to_owned(), 0..0),
        ("from_seq=0&to_seq=0".to_owned(), 0..0),
        ("to_seq=0&limit=1".to_owned(), 0..0),
        ("to_seq=0&from_ts=2000-01-01T00:00:00Z".to_owned(), 0..0),
        ("from_seq=4&to_seq=9".to_owned(), 3..9),
        (format!("from_seq={head}"), head - 1..head),
        (format!("from_seq={}", head + 1), head..head),
        (format!("from_seq=2&to_seq={}", u64::MAX), 1..head),
        (format!("from_seq={}", u64::MAX), head..head),
    ] {
        assert_eq!(recorded.page(&query), recorded.expect(&recorded.events[range], Value::Null), "{query}");
    }
}

#[test]
fn windows_by_time_are_inclusive() {
    let recorded = recorded();
    let ts = |event: &Value| event["ts"].as_str().unwrap().to_owned();
    let times: std::collections::BTreeSet<String> = recorded.events.iter().map(ts).collect();
    for from in &times {
        for to in times.range(from.clone()..) {
            let inside = |event: &&Value| ts(event) >= *from && ts(event) <= *to;
            let expected: Vec<Value> = recorded.events.iter().filter(inside).cloned().collect();
            let page = recorded.page(&format!("from_ts={from}&to_ts={to}"));
            assert_eq!(page, recorded.expect(&expected, Value::Null), "{from} {to}");
        }
    }
    let page = recorded.page("from_ts=2000-01-01T00:00:00Z&to_ts=2000-01-02T00:00:00%2B01:00");
    assert_eq!(page, recorded.expect(&[], Value::Null));
}

#[test]
fn pages_follow_each_other_without_gap_or_repeat() {
    let recorded = recorded();
    for more in ["", "&from_ts=2000-01-01T00:00:00Z", "&to_seq=17", "&to_seq=17&to_ts=2100-01-01T00:00:00Z"] {
        let expected = if more.contains("to_seq=17") { &recorded.events[..17] } else { &recorded.events };
        for limit in [1, 4, 17, expected.len() - 1, expected.len(), expected.len() + 1] {
            let mut gathered = Vec::new();
            let mut from = json!(1);
            while !from.is_null() {
                let page = recorded.page(&format!("from_seq={from}&limit={limit}{more}"));
                let events = page["events"].as_array().unwrap();
                assert!(!events.is_empty() && events.len() <= limit, "a page is never empty for nothing");
                assert_eq!(page["count"], events.len());
                gathered.extend(events.clone());
                from = page["next_seq"].clone();
            }
            assert_eq!(gathered, expected, "limit {limit}{more}");
        }
    }
}

#[test]
fn lines_have_windows_too_and_no_limit_of_their_own() {
    let recorded = recorded();
    let path = |query: &str| format!("/v1/jobs/{}/events/history?{query}", recorded.run);
    let lines = |query: &str| {
        let call = recorded.server.call("GET", &path(query)).header("accept", "text/plain, Application/X-NDJSON;q=0.9");
        call.send().text()
    };
    let joined = |lines: &[String]| -> String { lines.iter().map(|line| format!("{line}\n")).collect() };
    assert_eq!(lines("from_seq=3&to_seq=7"), joined(&recorded.lines[2..7]));
    assert_eq!(lines("limit=2"), joined(&recorded.lines[..2]));
    assert_eq!(lines("from_seq=999999"), "");
    assert_eq!(lines("to_seq=0"), "");
}

#[test]
fn windows_that_make_no_sense_are_refused() {
    let recorded = recorded();
    for wrong in [
        "from_seq=x",
        "from_seq=-1",
        "from_seq=1.5",
        "to_seq=%20",
        "from_seq=99999999999999999999",
        "from_ts=yesterday",
        "limit=0",
        "limit=10001",
        "from_seq=5&to_seq=4",
        "from_seq=1&to_seq=0",
        "from_ts=2026-01-02T00:00:00Z&to_ts=2026-01-01T00:00:00Z",
        "since=1",
    ] {
        let answer = recorded.server.get(&format!("/v1/jobs/{}/events/history?{wrong}", recorded.request));
        assert_eq!(answer.refusal(), (400, "INVALID_REQUEST".into()), "{wrong}");
        // A parameter that no route has is refused before the run is looked up.
        let known = if wrong == "since=1" { Value::Null } else { json!(recorded.request) };
        assert_eq!(answer.json()["error"]["request_id"], known, "{wrong}");
    }
}
