//! Traces and metrics reach a collector, which never holds up a run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use crate::interactive::pose::{self, Pose, says_after_command};
use crate::support::{LONG, Server};

/// A request that a collector got: path, value of the header `x-key`, body.
type Got = (String, String, Value);

/// A collector on a free port. Its first answer is that it is busy.
fn collector() -> (String, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut busy = true;
        for stream in listener.incoming() {
            if serve(&mut BufReader::new(stream.unwrap()), &sender, &mut busy).is_none() {
                return;
            }
        }
    });
    (format!("http://{address}/"), receiver)
}

/// Answers the requests of one connection; none when nobody wants to know of them any more.
fn serve(stream: &mut BufReader<TcpStream>, got: &Sender<Got>, busy: &mut bool) -> Option<()> {
    loop {
        let (mut head, mut line) = (Vec::new(), String::new());
        while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
            head.push(std::mem::take(&mut line).trim_end().to_owned());
        }
        let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)).map(str::to_owned) else {
            return Some(());
        };
        let header = |name: &str| {
            let found =
                head.iter().find_map(|line| line.to_lowercase().strip_prefix(&format!("{name}: ")).map(str::to_owned));
            found.unwrap_or_default()
        };
        assert_eq!(header("content-type"), "application/json");
        let mut body = vec![0; header("content-length").parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        let answer = if std::mem::replace(busy, false) {
            "HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n"
        } else {
            got.send((path, header("x-key"), serde_json::from_slice(&body).unwrap())).ok()?;
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
        };
        stream.get_mut().write_all(answer.as_bytes()).ok()?;
    }
}

fn next(got: &Receiver<Got>, path: &str) -> Value {
    loop {
        let (found, key, body) = got.recv_timeout(LONG).unwrap();
        assert_eq!(key, "abc=1");
        if found == path {
            return body;
        }
    }
}

fn spans(body: &Value) -> Vec<Value> {
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let found = span["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key);
    &found.unwrap_or_else(|| panic!("no {key}: {span:#}"))["value"]
}

#[test]
fn a_run_is_a_trace_of_its_caller_and_metrics_follow() {
    let (endpoint, got) = collector();
    let pose = Pose::new();
    pose.plays(&[says_after_command("o", "{\"name\": \"Ann\"}\n__SKILL_DONE__")]);
    let server = Server::with(&[
        ("engines.codex.command", &pose.command()),
        ("otlp_endpoint", &endpoint),
        ("otlp_headers", "x-key=abc%3D1"),
        ("otlp_service_name", "runner-7"),
        ("otlp_interval_seconds", "1"),
    ]);
    pose::skill(&server.folder.path().join("skills"), "asks", None);
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let body = json!({"skill_id": "asks", "engine": "codex"});
    let created = server.call("POST", "/v1/jobs").header("traceparent", traceparent).json(&body).send();
    let run = created.json()["run_id"].as_str().unwrap().to_owned();
    let events = server.finish(&run);
    assert_eq!(events[0]["data"]["traceparent"], traceparent);
    assert_eq!(events.last().unwrap()["type"], "conversation.completed", "{events:#?}");

    let body = next(&got, "/v1/traces");
    let resource = &body["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), &json!({"stringValue": "runner-7"}));
    let spans = spans(&body);
    let named =
        |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    let (root, attempt, command) = (named("run asks"), named("attempt 1"), named("command"));
    assert!(spans.iter().all(|span| span["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736"));
    assert_eq!(root["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!((&attempt["parentSpanId"], &command["parentSpanId"]), (&root["spanId"], &attempt["spanId"]));
    assert_eq!(attribute(root, "skill_runner.run_id"), &json!({"stringValue": run}));
    assert_eq!(attribute(root, "gen_ai.usage.input_tokens"), &json!({"intValue": "100"}));
    assert_eq!(root["status"], json!({"code": 1}));
    let nanos = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
    for span in &spans {
        assert!(nanos(root, "startTimeUnixNano") <= nanos(span, "startTimeUnixNano"), "{span:#}");
        assert!(nanos(span, "startTimeUnixNano") <= nanos(span, "endTimeUnixNano"), "{span:#}");
        assert!(nanos(span, "endTimeUnixNano") <= nanos(root, "endTimeUnixNano"), "{span:#}");
    }

    let metrics = next(&got, "/v1/metrics");
    let metrics = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let finished = metrics.iter().find(|metric| metric["name"] == "skill_runner_runs_finished_total").unwrap();
    let points = finished["sum"]["dataPoints"].as_array().unwrap();
    let of = |point: &&Value| {
        attribute(point, "engine") == &json!({"stringValue": "codex"})
            && attribute(point, "status") == &json!({"stringValue": "succeeded"})
    };
    assert_eq!(points.iter().find(of).unwrap()["asInt"], "1");
}

#[test]
fn a_trace_that_the_caller_does_not_record_is_not_sent_and_a_run_without_one_has_its_own() {
    let (endpoint, got) = collector();
    let settings =
        [("otlp_endpoint", endpoint.as_str()), ("otlp_headers", "x-key=abc%3D1"), ("otlp_interval_seconds", "3600")];
    let server = Server::with(&settings);
    server.skill("good", "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n", json!({}));
    let create = |traceparent: &str| {
        let call = server.call("POST", "/v1/jobs?wait=60").header("traceparent", traceparent);
        let body = json!({"skill_id": "good", "runtime_options": {"no_cache": true}});
        let created = call.json(&body).send();
        assert_eq!(created.status, 201, "{}", created.text());
        created.json()["run_id"].as_str().unwrap().to_owned()
    };
    create("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
    let own = create("not a traceparent");
    let spans = spans(&next(&got, "/v1/traces"));
    let traces: std::collections::BTreeSet<&str> = spans.iter().map(|span| span["traceId"].as_str().unwrap()).collect();
    assert_eq!(traces, std::collections::BTreeSet::from([own.replace('-', "").as_str()]));
}

#[test]
fn a_collector_that_does_not_answer_holds_up_no_run() {
    // Connections wait to be accepted, and nobody does.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::with(&[("otlp_endpoint", &endpoint)]);
    server.skill("good", "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n", json!({}));
    for _ in 0..5 {
        let body = json!({"skill_id": "good", "runtime_options": {"no_cache": true}});
        assert_eq!(server.post("/v1/jobs?wait=60", &body).json()["status"], "succeeded");
    }
}
