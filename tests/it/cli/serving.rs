//! `serve`: its address, its end; and the commands that use a service.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::place::{Place, Ran};

#[test]
fn the_service_prints_its_address_leaves_it_in_the_data_folder_and_ends_on_a_signal() {
    let place = Place::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        // The tests may have been started with it ignored, as by `nohup`.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_skill-runner"), "serve", "--port", "0"]);
        command.current_dir(place.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (running, line) = Place::started(command, "listening on ");
        let url = line.strip_prefix("listening on ").unwrap();
        let address = url.strip_prefix("http://").unwrap();
        TcpStream::connect(address).unwrap();
        let left: Value = serde_json::from_slice(&fs::read(place.path().join("data/service.json")).unwrap()).unwrap();
        assert_eq!(left["url"], json!(url));
        running.signal(signal);
        let ran = running.end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!place.path().join("data/service.json").exists());
    }
    let log = fs::read_to_string(place.path().join("data/logs/skill-runner.log")).unwrap();
    assert_eq!(log.matches("the service is ready").count(), 3, "{log}");
}

/// `nohup` starts a program with SIGHUP ignored, so that it outlives its terminal.
#[test]
fn a_service_that_was_started_to_ignore_a_hangup_goes_on_after_it() {
    let place = Place::new();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" serve --port 0", env!("CARGO_BIN_EXE_skill-runner")]);
    command.current_dir(place.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (running, line) = Place::started(command, "listening on ");
    running.signal(Signal::HUP);
    let url = line.strip_prefix("listening on ").unwrap();
    let answered = place.run(&["run", "tiny", "--server", url]);
    assert_eq!(answered.code, Some(0), "{answered:?}");
    running.signal(Signal::TERM);
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// Variables of the libraries it is made of are no settings of the program, and a wrong one must not end it.
#[test]
fn a_wrong_number_of_threads_in_the_environment_is_of_no_effect() {
    for wrong in ["0", "many"] {
        let place = Place::new();
        let ran = place.run_with(("TOKIO_WORKER_THREADS", wrong), &["run", "tiny"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

#[test]
fn the_end_of_the_service_does_not_wait_for_the_export_of_a_huge_file() {
    let place = Place::new();
    let run = place.finished_run();
    let (running, line) = place.start(&["serve", "--port", "0"], "listening on ");
    // Nothing but a hole, which takes minutes to hash. An export is refused where the disk has no room for it.
    let artifact = fs::File::options().write(true).open(place.run_folder(&run).join("artifacts/note.txt")).unwrap();
    let free = rustix::fs::fstatvfs(&artifact).map(|disk| disk.f_bavail * disk.f_frsize).unwrap();
    artifact.set_len((free / 4).min(32 << 30)).unwrap();
    let mut client = TcpStream::connect(line.strip_prefix("listening on http://").unwrap()).unwrap();
    write!(client, "GET /v1/jobs/{run}/export HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    // A second request is answered on another connection only after the first was read.
    let asked = place.run(&["history", &run, "--ndjson"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    running.signal(Signal::TERM);
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut answer = Vec::new();
    // The connection is cut: the export was never whole.
    let _ = client.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..answer.len().min(200)]));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let ran = place.run(&["serve", "--port", &address.port().to_string()]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains(&format!("error: listen on {address}: ")), "{ran:?}");
}

#[test]
fn an_address_that_a_killed_service_left_is_not_believed() {
    let place = Place::new();
    fs::create_dir(place.path().join("data")).unwrap();
    // The pid is alive, as it may be when it was given to somebody else; the port is dead.
    let left = json!({"url": "http://127.0.0.1:1", "pid": std::process::id()});
    fs::write(place.path().join("data/service.json"), left.to_string()).unwrap();
    let run = place.finished_run();
    assert_eq!(place.run(&["audit", &run]).code, Some(0));
}

/// Nor one that came with a folder from elsewhere.
#[test]
fn the_address_in_a_copy_of_the_folder_of_a_running_service_is_not_believed() {
    let place = Place::new();
    let run = place.finished_run();
    let (running, _) = place.start(&["serve", "--port", "0"], "listening on ");
    let data = |name: &str| place.path().join(name).display().to_string();
    let copied = Command::new("cp").args(["-a", &data("data"), &data("copy")]).status().unwrap();
    assert!(copied.success() && place.path().join("copy/service.json").exists());
    let ran = place.run(&["rm", &run, "--data-dir", "copy"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!place.path().join("copy/runs").join(&run).exists());
    assert_eq!(place.run(&["audit", &run]).code, Some(0), "the service still has it");
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn commands_on_the_data_folder_of_a_service_go_through_it() {
    let place = Place::new();
    fs::write(place.path().join("some.txt"), "content of it").unwrap();
    let (running, _) = place.start(&["serve", "--port", "0"], "listening on ");
    let ran = place.run(&["run", "./skills/tiny", "--file", "doc=some.txt", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let document = ran.json();
    let run = document["run_id"].as_str().unwrap();
    let note = place.run_folder(run).canonicalize().unwrap().join("artifacts/note.txt");
    assert_eq!(document["result"]["artifacts"][0]["path"], json!(note.display().to_string()));
    let request = document["request_id"].as_str().unwrap();
    let history = place.run(&["history", request, "--ndjson"]);
    assert_eq!((history.code, history.stdout.lines().count()), (Some(0), 11), "{history:?}");
    let audit = place.run(&["audit", request]);
    assert_eq!((audit.code, audit.stdout.lines().last()), (Some(0), Some("ok")), "{audit:?}");
    let unknown = place.run(&["run", "nope", "--json"]);
    assert_eq!((unknown.code, &unknown.json()["error"]["code"]), (Some(4), &json!("SKILL_NOT_FOUND")));

    let elsewhere = tempfile::tempdir().unwrap();
    let ran = place.run(&["run", elsewhere.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("runs installed skills only"), "{ran:?}");

    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(0));
    // What the service left is the same log, and nothing of it is lost.
    assert_eq!(place.run(&["history", request, "--ndjson"]).stdout, history.stdout);
}

#[test]
fn a_stop_ends_engines_after_the_grace_and_a_second_signal_does_not_wait() {
    let place = Place::new();
    place.skill("slow", "sleep 600\n");
    let begin = |grace: &str| {
        fs::write(place.path().join("skill-runner.yaml"), format!("drain_grace_seconds: {grace}\n")).unwrap();
        let (service, _) = place.start(&["serve", "--port", "0"], "listening on ");
        let client = place.start_run("slow", "turn.started");
        (service, client)
    };
    let (service, client) = begin("0");
    service.signal(Signal::TERM);
    let ran = service.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = client.end();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("ORCHESTRATOR_RESTART_INTERRUPTED"), "{ran:?}");

    let (mut service, _client) = begin("3000");
    service.signal(Signal::TERM);
    service.wait_for_stderr("no new work is taken");
    service.signal(Signal::TERM);
    assert_eq!(service.end().code, Some(130));
}

/// A service that gives prepared answers; what it was asked goes to the channel.
fn scripted_service(answers: Vec<(&'static str, String)>) -> (String, mpsc::Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, seen) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (line, head, body) = read_request(&stream);
            let answer = answers.iter().find(|(start, _)| line.starts_with(start)).map(|(_, answer)| answer.as_str());
            let (status, body_out) = match answer {
                Some(answer) => ("200 OK", answer),
                None => ("404 Not Found", r#"{"error":{"code":"ROUTE_NOT_FOUND","message":"no","details":{}}}"#),
            };
            write!(
                stream,
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body_out}",
                body_out.len()
            )
            .unwrap();
            if asked.send((format!("{line}\n{head}"), body)).is_err() {
                return;
            }
        }
    });
    (url, seen)
}

fn read_request(stream: &TcpStream) -> (String, String, String) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut head, mut length, mut chunked) = (String::new(), String::new(), 0, false);
    reader.read_line(&mut line).unwrap();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        if header.trim().is_empty() {
            break;
        }
        let lower = header.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        chunked |= lower.starts_with("transfer-encoding: chunked");
        head.push_str(&lower);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    while chunked {
        let mut size = String::new();
        reader.read_line(&mut size).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).unwrap();
        body.extend_from_slice(&chunk[..size]);
        chunked = size > 0;
    }
    (line.trim().to_owned(), head, String::from_utf8_lossy(&body).into_owned())
}

/// The answers of a service that has done a run: a real one, taken from `place`.
fn answers_of(place: &Place, run: &str, document: &Value) -> Vec<(&'static str, String)> {
    let log = fs::read_to_string(place.run_folder(run).join("logs/events.jsonl")).unwrap();
    let chat = |line: &str| format!("event: chat_event\ndata: {line}\n\n");
    let stream: String = log.lines().map(chat).collect();
    let created = json!({
        "request_id": document["request_id"], "run_id": run,
        "cache_hit": false, "status": "queued", "awaiting_upload": true,
    });
    let result = json!({"request_id": document["request_id"], "result": document["result"]});
    let mut job = document.clone();
    job.as_object_mut().unwrap().remove("result");
    let leak = |text: String| -> &'static str { text.leak() };
    vec![
        ("GET /healthz", "{}".to_owned()),
        ("POST /v1/jobs HTTP", created.to_string()),
        (leak(format!("POST /v1/jobs/{run}/upload")), "{}".to_owned()),
        (leak(format!("GET /v1/jobs/{run}/events/history")), log),
        (leak(format!("GET /v1/jobs/{run}/events")), format!("event: snapshot\ndata: {{}}\n\n{stream}")),
        (leak(format!("GET /v1/jobs/{run}/result")), result.to_string()),
        (leak(format!("GET /v1/jobs/{run} ")), job.to_string()),
    ]
}

#[test]
fn a_named_service_does_the_run_and_its_files_are_fetched_from_it() {
    let place = Place::new();
    let done = place.run(&["run", "tiny", "--json"]);
    let document = done.json();
    let run = document["run_id"].as_str().unwrap().to_owned();
    let (url, seen) = scripted_service(answers_of(&place, &run, &document));
    fs::write(place.path().join("some.txt"), "content of it").unwrap();
    let args = ["run", "tiny", "--server", &url, "--file", "doc=some.txt", "--input", "name=x", "--json"];
    let ran = place.run_with(("SKILL_RUNNER_TOKEN", "hush"), &args);
    // It tells the same, but where the artifacts are.
    let told =
        |ran: &Ran| ran.stderr.lines().filter(|line| !line.contains("note.txt")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((ran.code, told(&ran)), (Some(0), told(&done)), "{}", ran.stdout);
    let path = &serde_json::from_str::<Value>(&ran.stdout).unwrap()["result"]["artifacts"][0]["path"];
    let request = document["request_id"].as_str().unwrap();
    assert_eq!(*path, json!(format!("{url}/v1/jobs/{request}/artifacts/artifacts/note.txt")));

    let asked: Vec<(String, String)> = seen.try_iter().collect();
    let body: Value = serde_json::from_str(&asked[0].1).unwrap();
    let expected = json!({
        "skill_id": "tiny", "input": {"name": "x"}, "parameter": {}, "await_upload": true,
        "runtime_options": {"execution_mode": "auto"},
    });
    assert_eq!(body, expected);
    assert!(asked[1].0.starts_with(&format!("POST /v1/jobs/{run}/upload")) && asked[1].1.contains("content of it"));
    assert!(asked.iter().all(|(head, _)| head.contains("authorization: bearer hush")), "{asked:?}");
}

#[test]
fn the_running_service_of_the_data_folder_is_asked_for_runs() {
    let place = Place::new();
    let document = place.run(&["run", "tiny", "--json"]).json();
    let run = document["run_id"].as_str().unwrap().to_owned();
    let log = fs::read_to_string(place.run_folder(&run).join("logs/events.jsonl")).unwrap();
    let (url, seen) = scripted_service(answers_of(&place, &run, &document));
    let left = json!({"url": url, "pid": std::process::id()});
    fs::write(place.path().join("data/service.json"), left.to_string()).unwrap();
    // As the service does.
    let lock = fs::File::open(place.path().join("data/LOCK")).unwrap();
    lock.lock().unwrap();
    let ran = place.run(&["history", &run, "--ndjson"]);
    assert_eq!((ran.code, ran.stdout), (Some(0), log.clone()), "{}", ran.stderr);
    assert!(seen.try_iter().count() >= 3);
    let ran = place.run(&["audit", &run]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // The log is not exported yet: its events come from the service.
    fs::remove_file(place.run_folder(&run).join("logs/events.jsonl")).unwrap();
    let ran = place.run(&["audit", &run]);
    assert_eq!((ran.code, ran.stdout.lines().last()), (Some(0), Some("ok")), "{ran:?}");
    assert!(ran.stdout.contains("stored row"), "{ran:?}");
    let ran = place.run(&["history", "0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: ROUTE_NOT_FOUND: "), "{ran:?}");
}

#[test]
fn a_service_that_cannot_be_reached_is_named() {
    let place = Place::new();
    let ran = place.run(&["run", "tiny", "--server", "http://127.0.0.1:1"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""));
    assert!(ran.stderr.starts_with("error: the service at http://127.0.0.1:1 cannot be reached: "), "{ran:?}");
}

#[test]
fn a_start_does_not_wait_for_a_pipe_in_the_place_of_a_log() {
    use std::os::unix::fs::FileTypeExt;
    let place = Place::new();
    place.skill("pipe", "rm logs/stdout.txt\nmkfifo logs/stdout.txt\nexec sleep 1000\n");
    let (running, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let address = line.strip_prefix("listening on http://").unwrap();
    let body = r#"{"skill_id":"pipe"}"#;
    let mut connection = TcpStream::connect(address).unwrap();
    write!(
        connection,
        "POST /v1/jobs HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let limit = std::time::Instant::now() + crate::support::LONG;
    let is_pipe = |run: fs::DirEntry| {
        fs::symlink_metadata(run.path().join("logs/stdout.txt")).is_ok_and(|found| found.file_type().is_fifo())
    };
    while !fs::read_dir(place.path().join("data/runs")).into_iter().flatten().flatten().any(is_pipe) {
        assert!(std::time::Instant::now() < limit, "the engine never made its pipe");
        std::thread::yield_now();
    }
    running.signal(Signal::KILL);
    running.end();
    let (running, _) = place.start(&["serve", "--port", "0"], "listening on ");
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(0));
}
