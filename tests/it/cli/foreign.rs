//! A service, an export and a package of others: whatever they say, commands end, take little memory and show what they mean to show.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Value, json};

use super::hostile::{assert_controls_nothing, on_terminal};
use super::place::Place;
use crate::hostile::exports::Made;

const RUN: &str = "01a1f23e-4a9f-753b-bcf7-254d8dfaff92";
const LOG: &str = "logs/events.jsonl";

/// A service that somebody else wrote: it answers each request by its path, and then closes the connection.
struct Foreign {
    url: String,
}

impl Foreign {
    fn start(answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = answer.clone();
                std::thread::spawn(move || {
                    let (mut stream, mut head) = (stream, Vec::new());
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).split(b'\n').map_while(Result::ok);
                    head.extend(lines.by_ref().take_while(|line| line.len() > 1));
                    let path =
                        head.first().and_then(|line| Some(String::from_utf8_lossy(line).split(' ').nth(1)?.to_owned()));
                    // The command may have heard enough.
                    let _ = answer(&path.unwrap_or_default(), &mut stream);
                });
            }
        });
        Self { url }
    }
}

fn head(to: &mut TcpStream, kind: &str) -> std::io::Result<()> {
    write!(to, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n")
}

fn say(to: &mut TcpStream, document: &Value) -> std::io::Result<()> {
    head(to, "application/json")?;
    write!(to, "{document}")
}

fn job() -> Value {
    json!({"run_id": RUN, "status": "failed", "created_at": "2026-11-19T05:00:00.000000Z",
        "updated_at": "2026-11-19T05:00:01.000000Z"})
}

fn event(seq: u64, kind: &str, data: &Value) -> String {
    json!({"protocol_version": "fcmp/1.0", "run_id": RUN, "seq": seq, "ts": "2026-11-19T05:00:00.000000Z",
        "engine": "script", "type": kind, "data": data, "meta": {"attempt": 1, "local_seq": seq, "kind": "x"},
        "raw_ref": null})
    .to_string()
}

/// The export of a run whose log holds this.
fn exported(place: &Place, name: &str, log: Vec<u8>) {
    place.finished_run();
    let ran = place.run(&["export", "last", "-o", "run.zip"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let made = Made::of(&fs::read(place.path().join("run.zip")).unwrap());
    fs::write(place.path().join(name), made.listed_with(LOG, log)).unwrap();
}

#[test]
fn a_replay_reads_no_more_of_a_line_than_an_event_may_have() {
    let place = Place::new();
    exported(&place, "long.zip", vec![0; 5 << 20]);
    let ran = place.run(&["replay", "--speed", "max", "long.zip"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: read the events: a line has more than 4194304 bytes\n"), "{}", ran.stderr);
}

#[test]
fn the_events_of_a_service_that_sends_them_without_end_do_not_fit_into_one_document() {
    let foreign = Foreign::start(|path, to| {
        if !path.contains("/events/history") {
            return say(to, &job());
        }
        head(to, "application/x-ndjson")?;
        let line = event(1, "odd", &json!({"x": "y".repeat(100_000)}));
        loop {
            writeln!(to, "{line}")?;
        }
    });
    let ran = Place::new().run(&["history", RUN, "--json", "--server", &foreign.url]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    let told =
        "error: the events have more than 67108864 bytes, too many for one document; --ndjson prints any number\n";
    assert_eq!(ran.stderr, told);
}

#[test]
fn a_document_of_events_has_them_as_they_are_stored() {
    let place = Place::new();
    let run = place.finished_run();
    let stored = place.run(&["history", &run, "--ndjson"]).stdout;
    let events: Vec<Value> = stored.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.len() > 5);
    let document = json!({"run_id": run, "count": events.len(), "events": events});
    assert_eq!(place.run(&["history", &run, "--json"]).stdout, format!("{document:#}\n"));
}

/// What would control a terminal, and a line that somebody could believe.
const NASTY: &str = "x\x1b]0;title\x07\x1b[2J\u{9b}2J\u{202e}\nwords 9.9.9 is ok";

fn answer_nastily(path: &str, to: &mut TcpStream, last: &str) -> std::io::Result<()> {
    if path.ends_with("/result") {
        let artifact = json!({"path_rel": NASTY, "url": NASTY, "mime": NASTY, "size": NASTY});
        return say(
            to,
            &json!({"result": {"status": "failed", "error": {"code": NASTY, "message": "m"}, "data": null,
            "artifacts": [artifact]}}),
        );
    }
    if path.ends_with("/explain") {
        let origin = json!({"kind": "file", "file": NASTY, "byte_from": NASTY, "byte_to": NASTY});
        return say(
            to,
            &json!({"run_id": NASTY, "code": "ENGINE_FAILED", "cause": NASTY, "status": "failed",
            "decided_by": {"seq": NASTY, "type": NASTY}, "stderr_tail": "x", "details": {},
            "violations": [{"path": NASTY, "message": NASTY, "origin": origin}]}),
        );
    }
    let odd = event(1, NASTY, &json!({}));
    if path.contains("/events/history") {
        head(to, "application/x-ndjson")?;
        return write!(to, "{odd}\n{last}\n");
    }
    if path.contains("/events?") {
        head(to, "text/event-stream")?;
        return write!(to, "event: chat_event\ndata: {odd}\n\nevent: chat_event\ndata: {last}\n\n");
    }
    say(to, &job())
}

#[test]
fn names_that_others_wrote_neither_control_the_terminal_nor_make_lines() {
    let place = Place::new();
    exported(&place, "nasty.zip", format!("{}\n", event(1, NASTY, &json!({}))).into_bytes());
    fs::write(place.path().join("skills/tiny").join(NASTY.replace('/', "")), "").unwrap();
    let last = place.run(&["history", "last", "--ndjson"]).stdout.lines().last().unwrap().to_owned();
    let foreign = Foreign::start(move |path, to| answer_nastily(path, to, &last));
    let server = ["--server", &foreign.url];
    for (args, at) in [
        (&["replay", "-v", "--speed", "max", "nasty.zip"][..], &[][..]),
        (&["skill", "show", "tiny"], &[]),
        (&["watch", "-v", RUN], &server[..]),
        (&["result", RUN], &server),
        (&["history", RUN], &server),
        (&["explain", RUN], &server),
    ] {
        let args = [args, at].concat();
        let shown = on_terminal(place.command(&args));
        assert!(shown.contains('\u{fffd}') && shown.contains("words 9.9.9"), "{args:?}: {shown:?}");
        assert_controls_nothing(&args, &shown);
        let ran = place.run(&args);
        let forged = |text: &str| text.lines().any(|line| line.starts_with("words 9.9.9"));
        assert!(!forged(&ran.stdout) && !forged(&ran.stderr), "{args:?}: {ran:?}");
    }
}

#[test]
fn no_more_of_a_stream_is_parsed_again_than_a_run_may_log() {
    let place = Place::new();
    let run = place.finished_run();
    let ran = place.run(&["reparse", &run]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let size = fs::metadata(place.run_folder(&run).join("logs/stdout.txt")).unwrap().len();
    let limit = (size - 1).to_string();
    let ran = place.run_with(("SKILL_RUNNER_MAX_LOG_BYTES", &limit), &["reparse", &run]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    let path = "logs/stdout.txt: the log names";
    assert!(ran.stderr.contains(path), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("{size} bytes of it, and max_log_bytes is {limit}")), "{}", ran.stderr);
    let ran = place.run_with(("SKILL_RUNNER_MAX_LOG_BYTES", &size.to_string()), &["reparse", &run]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
