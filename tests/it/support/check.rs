//! Checks that every run of every test has to pass.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Server, log};

/// The log keeps every rule, and the files are what it says.
pub fn log_on_disk(server: &Server, run: &str) {
    assert_eq!(
        server.block_on(log::flaws(&server.orchestrator, run.parse().unwrap())),
        Vec::<String>::new(),
        "run {run}"
    );
}

/// The same, and what the API says about it: history, stream and the bytes behind every event.
pub fn whole_log(server: &Server, run: &str) {
    log_on_disk(server, run);
    let history =
        server.call("GET", &format!("/v1/jobs/{run}/events/history")).header("accept", "application/x-ndjson");
    let history = history.send().text();
    let streamed: String = server.events(run, 0).rest()[1..].iter().map(|event| format!("{}\n", event.data)).collect();
    assert_eq!(streamed, history, "run {run}: the stream is not the history");
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for line in history.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let raw = &event["raw_ref"];
        if raw.is_null() {
            continue;
        }
        let stream = raw["stream"].as_str().unwrap();
        let (from, to) = (raw["byte_from"].as_u64().unwrap(), raw["byte_to"].as_u64().unwrap());
        let end = ends.entry(stream.to_owned()).or_default();
        assert_eq!(from, *end, "run {run}: a gap before event {}", event["seq"]);
        *end = to;
        bytes_behind(server, run, &event, stream, from..to);
    }
    for (stream, end) in ends {
        let file = server.run_dir(run).join(format!("logs/{stream}.txt"));
        assert_eq!(std::fs::metadata(file).unwrap().len(), end, "run {run}: {stream}");
    }
}

fn bytes_behind(server: &Server, run: &str, event: &Value, stream: &str, bytes: std::ops::Range<u64>) {
    let (from, to) = (bytes.start, bytes.end);
    let path = format!("/v1/jobs/{run}/logs/range?stream={stream}&byte_from={from}&byte_to={to}");
    let range = server.get(&path).json();
    let file = std::fs::read(server.run_dir(run).join(format!("logs/{stream}.txt"))).unwrap();
    let (from, to) = (range["byte_from"].as_u64().unwrap(), range["byte_to"].as_u64().unwrap());
    assert!(from <= bytes.start && to >= bytes.end, "{range}");
    let content = range["content"].as_str().unwrap();
    let content =
        if range["encoding"] == "base64" { STANDARD.decode(content).unwrap() } else { content.as_bytes().to_vec() };
    assert_eq!(content, &file[from as usize..to as usize], "{path}");
    assert!(range["events"].as_array().unwrap().contains(&event["seq"]), "{range} does not name {event}");
}
