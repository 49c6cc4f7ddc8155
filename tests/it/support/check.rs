//! Checks that every run of every test has to pass.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use skill_runner::domain::cache_key::sha256_hex;
use skill_runner::domain::fact::Stream;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::domain::outcome::StreamProof;
use skill_runner::fcmp::audit::{Auditor, Expect};
use skill_runner::store::EventBatch;

use super::Server;

/// The log keeps every rule, and the files are what it says.
pub fn log_on_disk(server: &Server, run: &str) {
    let id: RunId = run.parse().unwrap();
    let mut auditor = Auditor::default();
    let mut at = Seq::START;
    loop {
        let batches = server.orchestrator.log().read(id, at, 1 << 20).unwrap();
        let Some(last) = batches.last() else { break };
        at = last.last();
        for (_, event) in batches.iter().flat_map(EventBatch::events) {
            auditor.push(&event);
        }
    }
    let state = server.orchestrator.state(id).unwrap();
    assert_eq!(state.head_seq, at, "run {run}");
    assert_eq!(server.orchestrator.log().fold(id, at).unwrap().state, state, "run {run}: its row is not its fold");
    let mut files = BTreeMap::new();
    for stream in [Stream::Stdout, Stream::Stderr, Stream::Pty] {
        let path = server.run_dir(run).join(format!("logs/{}.txt", stream.as_str()));
        if let Ok(bytes) = std::fs::read(path) {
            files.insert(stream, StreamProof { bytes: bytes.len() as u64, sha256: sha256_hex(&bytes) });
        }
    }
    let expect = if state.status.is_final() { Expect::Final } else { Expect::Any };
    assert_eq!(auditor.finish(&files, expect), [], "run {run}");
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
