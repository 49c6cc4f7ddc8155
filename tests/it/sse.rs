//! Event streams: replay, live tail, resuming anywhere, and their ends.

use serde_json::{Value, json};

use crate::support::client::SseEvent;
use crate::support::skill::{GATED, HELLO};
use crate::support::{Server, Sse};

/// Talks in bursts, so that its log is made of several appends.
const CHATTY: &str = "cat >/dev/null\nfor i in 1 2 3 4 5 6; do echo \"$i% step\" >&2; echo \"note $i\" >&2; sleep 0.02; done\n\
    echo '{\"success\":true,\"data\":{}}'\n";

fn bytes(events: &[SseEvent]) -> Vec<u8> {
    events.iter().flat_map(|event| event.bytes.clone()).collect()
}

#[test]
fn a_stream_is_a_snapshot_and_then_the_stored_bytes() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (request, run) = server.finished("hello");
    let stream = Sse::open(server.address, &format!("/v1/jobs/{request}/events"), &[]);
    assert_eq!(stream.status, 200);
    for header in ["content-type: text/event-stream", "cache-control: no-store", "x-accel-buffering: no"] {
        assert!(stream.headers.iter().any(|line| line == header), "{header} in {:?}", stream.headers);
    }
    let history =
        server.call("GET", &format!("/v1/jobs/{run}/events/history")).header("accept", "application/x-ndjson");
    let lines = history.send().text();
    let head = lines.lines().count();
    let mut expected = format!(
        "retry: 2000\nevent: snapshot\ndata: {{\"status\":\"succeeded\",\"cursor\":{head},\"pending_interaction_id\":null}}\n\n"
    );
    for (i, line) in lines.lines().enumerate() {
        expected.push_str(&format!("event: chat_event\nid: {}\ndata: {line}\n\n", i + 1));
    }
    assert_eq!(String::from_utf8(bytes(&stream.rest())).unwrap(), expected);
}

#[test]
fn a_stream_cut_anywhere_is_resumed_with_exactly_the_rest() {
    let server = Server::start();
    server.skill("chatty", CHATTY, json!({}));
    let (_, run) = server.finished("chatty");
    let path = format!("/v1/jobs/{run}/events");
    let resumed = |cursor: Option<u64>, last: Option<u64>| {
        let path = cursor.map_or(path.clone(), |cursor| format!("{path}?cursor={cursor}"));
        let last = last.map(|last| last.to_string());
        let headers: Vec<(&str, &str)> = last.iter().map(|last| ("last-event-id", last.as_str())).collect();
        Sse::open(server.address, &path, &headers).rest()
    };
    let whole = resumed(None, None);
    let head = whole.len() as u64 - 1;
    assert_eq!(whole.last().unwrap().id, Some(head));
    for cut in 0..head {
        let (snapshot, rest) = (bytes(&whole[..1]), bytes(&whole[1 + cut as usize..]));
        let expected = [snapshot, rest].concat();
        assert_eq!(bytes(&resumed(Some(cut), None)), expected, "cursor {cut}");
        assert_eq!(bytes(&resumed(None, Some(cut))), expected, "Last-Event-ID {cut}");
        assert_eq!(bytes(&resumed(Some(cut / 2), Some(cut))), expected, "the larger wins");
        assert_eq!(bytes(&resumed(Some(cut), Some(0))), expected, "the larger wins");
    }
    for all in [head, head + 1, head + 100, u64::MAX] {
        let answer = Sse::open(server.address, &format!("{path}?cursor={all}"), &[]);
        assert_eq!(answer.status, 204, "there is nothing more, and an EventSource does not come back");
    }
}

#[test]
fn a_live_stream_that_is_cut_after_every_event_misses_nothing() {
    let server = Server::start();
    server.skill("chatty", CHATTY, json!({}));
    let (_, run) = server.create("chatty");
    let mut gathered: Vec<Value> = Vec::new();
    loop {
        // Each reader sees one event and goes away.
        let Some(event) = server.events(&run, gathered.len() as u64).next_chat() else { break };
        gathered.push(event);
    }
    server.finish(&run);
    assert_eq!(json!(gathered), server.get(&format!("/v1/jobs/{run}/events/history")).json()["events"]);
}

#[test]
fn readers_of_a_live_run_all_see_the_history() {
    let server = Server::start();
    server.skill("chatty", CHATTY, json!({}));
    let (_, run) = server.create("chatty");
    let streams: Vec<Vec<Value>> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..20).map(|_| scope.spawn(|| server.events(&run, 0).until_end())).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    server.finish(&run);
    let history = server.get(&format!("/v1/jobs/{run}/events/history")).json();
    for events in streams {
        assert_eq!(json!(events), history["events"]);
    }
}

#[test]
fn a_reader_that_does_not_read_slows_nobody_and_misses_nothing() {
    let server = Server::start();
    let sh = "cat >/dev/null\nmkfifo gate\necho ready >&2\nread line < gate\n\
        i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo \"$i is a number in a line that is rather long for what it says, so that they fill a buffer\"; done >&2\n\
        echo '{\"success\":true,\"data\":{}}'\n";
    server.skill("flood", sh, json!({}));
    let (_, run) = server.create("flood");
    server.wait_for(&run, "raw.stderr", "ready");
    let slow = server.events(&run, 0);
    server.open_gate(&run, "go");
    let quick = server.finish(&run);
    assert_eq!(json!(slow.until_end()), json!(quick), "it reads on from the log at its own pace");
}

#[test]
fn silence_is_filled_with_heartbeats_without_an_id() {
    let server = Server::with(&[("heartbeat_seconds", "1")]);
    server.skill("gated", GATED, json!({}));
    let (_, run) = server.create("gated");
    let seen = server.wait_for(&run, "raw.stderr", "ready");
    let mut stream = server.events(&run, seen["seq"].as_u64().unwrap());
    let snapshot = stream.next_event().unwrap();
    assert_eq!((snapshot.event.as_str(), snapshot.id), ("snapshot", None));
    for _ in 0..2 {
        let heartbeat = stream.next_event().unwrap();
        assert_eq!(heartbeat.bytes, b"event: heartbeat\ndata: {}\n\n");
    }
    server.open_gate(&run, "on");
    let rest = stream.until_end();
    assert_eq!(rest.last().unwrap()["type"], "conversation.completed");
    server.finish(&run);
}

#[test]
fn a_cursor_beyond_the_head_of_a_live_run_waits() {
    let server = Server::start();
    server.skill("gated", GATED, json!({}));
    let (_, run) = server.create("gated");
    let head = server.wait_for(&run, "raw.stderr", "ready")["seq"].as_u64().unwrap();
    let mut next = server.events(&run, head + 1);
    let beyond = server.events(&run, 1_000_000);
    assert_eq!(next.next_event().unwrap().event, "snapshot");
    server.open_gate(&run, "on");
    let all = server.finish(&run);
    assert_eq!(next.until_end(), all[head as usize + 1..]);
    assert_eq!(beyond.until_end(), Vec::<Value>::new(), "it ends with the run");
}

#[test]
fn a_cursor_that_is_no_whole_number_is_refused() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let (request, _) = server.finished("hello");
    let path = format!("/v1/jobs/{request}/events");
    for cursor in ["x", "-1", "1.5", "", "%201", "0x1", "99999999999999999999", "1e3"] {
        let answer = server.get(&format!("{path}?cursor={cursor}"));
        assert_eq!(answer.refusal(), (400, "INVALID_CURSOR".into()), "{cursor}");
        let answer = server.call("GET", &path).header("last-event-id", &cursor.replace("%20", "+")).send();
        assert_eq!(answer.refusal(), (400, "INVALID_CURSOR".into()), "{cursor}");
        assert_eq!(answer.json()["error"]["request_id"], json!(request));
    }
    assert_eq!(server.get(&format!("{path}?since=1")).refusal(), (400, "INVALID_REQUEST".into()));
}

#[test]
fn a_run_whose_events_have_left_the_store_is_streamed_from_its_file() {
    let server = Server::with(&[("seal_grace_seconds", "0")]);
    server.skill("chatty", CHATTY, json!({}));
    let (_, run) = server.create("chatty");
    let live = server.events(&run, 0).rest();
    let store = skill_runner::domain::ids::RunId(run.parse().unwrap());
    // The channel of a run closes when its events leave the store.
    let mut head = server.orchestrator.log().watch(store);
    let gone = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        tokio::time::timeout(crate::support::LONG, async { while head.changed().await.is_ok() {} }).await
    });
    gone.unwrap();
    let late = server.events(&run, 0).rest();
    assert_eq!(bytes(&late[1..]), bytes(&live[1..]));
    server.finish(&run);
}

#[test]
fn the_end_of_the_service_ends_open_streams_cleanly() {
    let mut server = Server::start();
    server.skill("gated", GATED, json!({}));
    let (_, run) = server.create("gated");
    let head = server.wait_for(&run, "raw.stderr", "ready")["seq"].as_u64().unwrap();
    let mut stream = server.events(&run, head);
    assert_eq!(stream.next_event().unwrap().event, "snapshot");
    server.stop();
    assert_eq!(stream.next_event(), None, "a clean end, so the client comes back with its cursor");
    server.stopped();
    server.drain();
}

#[test]
fn the_end_of_the_service_is_minded_after_the_last_event_of_a_run() {
    let mut server = Server::start();
    server.skill("gated", GATED, json!({}));
    let (_, run) = server.create("gated");
    server.wait_for(&run, "raw.stderr", "ready");
    let streams: Vec<_> = (0..40).map(|_| server.events(&run, 0)).collect();
    // The run's end and the service's, one right after the other.
    server.drain();
    server.stop();
    for stream in streams {
        assert_eq!(stream.until_end().last().unwrap()["type"], "conversation.failed");
    }
    server.stopped();
}
