//! Hostile requests: each gets its code, and leaves nothing behind.

mod crowded_output;
mod damaged_rows;
mod egress;
pub mod exports;
mod files;
mod large_answers;
mod large_packages;
mod late_recovery;
mod nested_texts;
mod notifications;
mod output;
mod own_folder;
mod packages;
mod parsers;
mod races;
mod rebinding;
mod schemas;
mod templates;

use std::io::Write;

use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::support::Server;
use crate::support::client::raw;
use crate::support::skill::HELLO;

fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A zip whose entry has another name in both its headers; the zip writer itself refuses such names.
fn renamed(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut zip = zip_of(&[(from, b"x")]);
    for at in 0..zip.len() - from.len() {
        if zip[at..].starts_with(from.as_bytes()) {
            zip[at..at + from.len()].copy_from_slice(to.as_bytes());
        }
    }
    zip
}

fn link() -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.add_symlink("paper", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    zip.finish().unwrap().into_inner()
}

fn waiting(server: &Server) -> String {
    let file = json!({"type": "string"});
    let input = json!({"type": "object", "properties": {"paper": file, "other": file}, "required": ["paper"]});
    server.skill("reader", HELLO, json!({"input": input}));
    server.create("reader").0
}

#[test]
fn hostile_zips_are_refused_and_leave_nothing() {
    let server =
        Server::with(&[("max_upload_bytes", "100000"), ("max_unpacked_bytes", "20000000"), ("max_entries", "10")]);
    let request = waiting(&server);
    let before = server.left_behind();
    let whole = zip_of(&[("paper", b"some text")]);
    let many: Vec<(String, &[u8])> = (0..11).map(|n| (n.to_string(), &b""[..])).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|(name, content)| (name.as_str(), *content)).collect();
    for (what, zip, status, code) in [
        ("no zip", b"this is not a zip".to_vec(), 400, "INVALID_ZIP"),
        ("nothing", Vec::new(), 400, "INVALID_ZIP"),
        ("truncated", whole[..whole.len() - 9].to_vec(), 400, "INVALID_ZIP"),
        ("cut in half", whole[..whole.len() / 2].to_vec(), 400, "INVALID_ZIP"),
        ("slip", renamed("xx/paper", "../paper"), 400, "UNSAFE_PATH"),
        ("absolute", renamed("xtmp/paper", "/tmp/paper"), 400, "UNSAFE_PATH"),
        ("a link", link(), 400, "UNSAFE_PATH"),
        ("the same name twice", zip_of(&[("paper", b"a"), ("PAPER", b"b")]), 400, "UNSAFE_PATH"),
        ("a bomb", zip_of(&[("paper", &vec![0; 19_000_000])]), 413, "PAYLOAD_TOO_LARGE"),
        ("more than may be unpacked", zip_of(&[("paper", &vec![0; 21_000_000])]), 413, "PAYLOAD_TOO_LARGE"),
        ("too many entries", zip_of(&many), 413, "PAYLOAD_TOO_LARGE"),
        ("two for one", zip_of(&[("paper.txt", b"x"), ("uploads/paper", b"x")]), 400, "INVALID_REQUEST"),
        ("more than may be sent", vec![b'x'; 100_001], 413, "PAYLOAD_TOO_LARGE"),
        ("far more than may be sent", vec![b'x'; 5_000_000], 413, "PAYLOAD_TOO_LARGE"),
    ] {
        let answer = server.call("POST", &format!("/v1/jobs/{request}/upload")).parts(&[("file", &zip)]).send();
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{what}: {}", answer.text());
        assert_eq!(answer.json()["error"]["request_id"], json!(request), "{what}");
        assert_eq!(server.left_behind(), before, "{what}");
    }
    assert_eq!(server.get(&format!("/v1/jobs/{request}")).json()["awaiting_upload"], json!(true));
    let good = server.call("POST", &format!("/v1/jobs/{request}/upload")).parts(&[("file", &whole)]).send();
    assert_eq!(good.status, 200, "a refused upload is not the last word");
    server.finish(server.get(&format!("/v1/jobs/{request}")).json()["run_id"].as_str().unwrap());
}

#[test]
fn more_names_than_one_event_holds_are_refused_with_the_reason_and_leave_nothing() {
    let server = Server::start();
    let input = json!({"type": "object", "properties": {"docs": {"type": "array", "x-input-source": "files"}}});
    server.skill("collector", HELLO, json!({"input": input}));
    let (request, _) = server.create_with(&json!({"skill_id": "collector", "await_upload": true}));
    let before = server.left_behind();
    let names: Vec<String> = (0..2000).map(|number| format!("{number:0240}")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let answer = server.call("POST", &format!("/v1/jobs/{request}/upload")).parts(&[("file", &zip_of(&files))]).send();
    assert_eq!(answer.refusal(), (413, "PAYLOAD_TOO_LARGE".into()));
    assert!(
        answer.text().contains("the list of the 2000 files, with their names and hashes, has "),
        "{}",
        answer.text()
    );
    assert_eq!(server.left_behind(), before);
}

#[test]
fn uploads_that_are_not_one_file_are_refused() {
    let server = Server::start();
    let request = waiting(&server);
    let before = server.left_behind();
    let path = format!("/v1/jobs/{request}/upload");
    let zip = zip_of(&[("paper", b"x")]);
    let (wrong, unknown) = ("INVALID_REQUEST", "UNKNOWN_INPUT_KEY");
    for (parts, code) in [
        (&[][..], wrong),
        (&[("zip", &zip[..])], unknown),
        (&[("file", &zip), ("file", &zip)], wrong),
        (&[("file", &zip), ("paper", b"x")], wrong),
        (&[("file", &zip), ("more", b"")], unknown),
    ] {
        let answer = server.call("POST", &path).parts(parts).send();
        assert_eq!(answer.refusal(), (400, code.to_owned()), "{parts:?}");
    }
    for content_type in ["application/zip", "application/json", "multipart/mixed; boundary=EDGE", ""] {
        let answer = server.call("POST", &path).body(content_type, zip.clone()).send();
        assert_eq!(answer.refusal(), (415, "UNSUPPORTED_MEDIA_TYPE".into()), "{content_type}");
    }
    for (content_type, body) in [
        ("multipart/form-data", &b"--EDGE--\r\n"[..]),
        ("multipart/form-data; boundary=EDGE", b"no parts at all"),
        ("multipart/form-data; boundary=EDGE", b"--EDGE\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\nPK"),
        ("multipart/form-data; boundary=EDGE", b""),
    ] {
        let answer = server.call("POST", &path).body(content_type, body).send();
        assert_eq!(answer.refusal(), (400, "INVALID_REQUEST".into()), "{content_type} {body:?}");
    }
    assert_eq!(server.left_behind(), before);
}

#[test]
fn a_client_that_breaks_off_its_upload_leaves_nothing() {
    let server = Server::start();
    let request = waiting(&server);
    let before = server.left_behind();
    let mut connection = std::net::TcpStream::connect(server.address).unwrap();
    write!(
        connection,
        "POST /v1/jobs/{request}/upload HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=EDGE\r\n\
         content-length: 100000\r\n\r\n--EDGE\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n{}",
        "x".repeat(50_000)
    )
    .unwrap();
    let uploads = || server.left_behind().iter().filter(|path| path.starts_with("tmp/upload-")).count();
    let limit = std::time::Instant::now() + crate::support::LONG;
    while uploads() == 0 {
        assert!(std::time::Instant::now() < limit, "the upload never began");
        std::thread::yield_now();
    }
    drop(connection);
    while uploads() > 0 {
        assert!(std::time::Instant::now() < limit, "{:?} stays", server.left_behind());
        std::thread::yield_now();
    }
    assert_eq!(server.left_behind(), before);
    assert_eq!(server.get(&format!("/v1/jobs/{request}")).json()["awaiting_upload"], json!(true));
}

#[test]
fn hostile_bodies_create_nothing() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({"input": {"type": "object", "properties": {"paper": {"type": "string"}}}}));
    for (body, code) in [
        ("{", "INVALID_JSON"),
        ("\u{feff}{\"skill_id\":\"hello\"}", "INVALID_JSON"),
        (r#"{"skill_id":"hello","__proto__":{}}"#, "INVALID_REQUEST"),
        (r#"{"skill_id":"hello","skill_id":"other"}"#, "INVALID_REQUEST"),
        (r#"{"skill_id":"hello","runtime_options":{"shell":true}}"#, "INVALID_REQUEST"),
        (r#"{"skill_id":"hello","input":{"paper":"/etc/passwd"}}"#, "FILE_INPUT_INLINE"),
        (r#"{"skill_id":"hello","input":{"../paper":1}}"#, "UNKNOWN_INPUT_KEY"),
    ] {
        let answer = server.call("POST", "/v1/jobs").body("application/json", body).send();
        assert_eq!(answer.refusal(), (400, code.to_owned()), "{body}");
    }
    for id in ["..", "../hello", "/etc", "hello/", "hello\0", "HELLO", "."] {
        let answer = server.post("/v1/jobs", &json!({"skill_id": id}));
        assert_eq!(answer.refusal(), (404, "SKILL_NOT_FOUND".into()), "{id:?}");
    }
    assert_eq!(server.left_behind(), Vec::<String>::new());
    assert_eq!(server.get("/v1/jobs").json()["jobs"], json!([]));
}

#[test]
fn no_path_leads_out_of_the_artifacts() {
    let server = Server::start();
    let sh = "cat >/dev/null\nmkdir -p artifacts/sub\necho good > artifacts/sub/good.txt\nln -s /etc/passwd artifacts/link\n\
        ln -s / artifacts/root\nln -s ../result/result.json artifacts/sub/inside\nmkfifo artifacts/pipe\n\
        echo '{\"success\":true,\"data\":{}}'\n";
    server.skill("links", sh, json!({}));
    let (request, run) = server.finished("links");
    let list = server.get(&format!("/v1/jobs/{request}/artifacts")).json();
    assert_eq!(list["artifacts"], json!(["artifacts/sub/good.txt"]));
    let download = |path: &str| {
        // Sent as it is: a client library might tidy it.
        let head =
            format!("GET /v1/jobs/{run}/artifacts/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = raw(server.address, head.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        let code = serde_json::from_str::<Value>(body).map(|body| body["error"]["code"].as_str().unwrap().to_owned());
        (status, code.unwrap_or(body.to_owned()))
    };
    assert_eq!(download("artifacts/sub/good.txt"), (200, "good\n".into()));
    for path in [
        "result/result.json",
        "uploads/x",
        "..%2f..%2f..%2fetc%2fpasswd",
        "../../../etc/passwd",
        "artifacts/../result/result.json",
        "artifacts/%2e%2e/result/result.json",
        "artifacts%2f..%2fresult%2fresult.json",
        "artifacts/..%2f..%2f..%2fstore",
        "artifacts//sub/good.txt",
        "artifacts/./sub/good.txt",
        "artifacts/sub/good.txt/",
        "/etc/passwd",
        "//etc/passwd",
        "%2fetc%2fpasswd",
        "artifacts/sub%00/good.txt",
        "artifacts/link",
        "artifacts/root/etc/passwd",
        "artifacts/sub/inside",
    ] {
        assert_eq!(download(path), (400, "UNSAFE_PATH".into()), "{path}");
    }
    for path in [
        "artifacts/none",
        "artifacts/sub",
        "artifacts/pipe",
        "artifacts/%252e%252e/x",
        "artifacts/..%5c..%5cx",
        "artifacts/sub/good.txt%20",
        "artifacts/SUB/good.txt",
    ] {
        assert_eq!(download(path), (404, "ARTIFACT_NOT_FOUND".into()), "{path}");
    }
}

#[test]
fn a_log_that_was_replaced_by_a_link_is_not_followed_and_is_back_at_the_end() {
    let server = Server::start();
    let sh = "cat >/dev/null\nmkfifo gate\nrm logs/stderr.txt\nln -s /etc/passwd logs/stderr.txt\necho ready >&2\n\
        read line < gate\necho '{\"success\":true,\"data\":{}}'\n";
    server.skill("swap", sh, json!({}));
    let (_, run) = server.create("swap");
    server.wait_for(&run, "raw.stderr", "ready");
    for path in ["logs", "logs/range?stream=stderr"] {
        let answer = server.get(&format!("/v1/jobs/{run}/{path}"));
        assert!(answer.status >= 400, "{}", answer.text());
        assert!(!answer.text().contains("root:"));
    }
    server.open_gate(&run, "on");
    server.finish(&run);
    assert_eq!(server.get(&format!("/v1/jobs/{run}/logs")).json()["stderr"], "ready\n");
}

#[test]
fn a_run_that_never_started_leaves_no_temporary_folder() {
    let server = Server::start();
    let request = waiting(&server);
    assert_eq!(server.post(&format!("/v1/jobs/{request}/cancel"), &json!({})).json()["status"], "canceled");
    let left: Vec<String> = server.left_behind().into_iter().filter(|path| path.starts_with("tmp/")).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn a_run_is_over_whatever_its_skill_put_in_the_runners_places() {
    let server = Server::start();
    let outside = server.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let link = format!("ln -s {} ", outside.display());
    for (id, sh) in [
        ("bundle-file", "rm -r bundle; echo x > bundle".to_owned()),
        ("bundle-link", format!("rm -r bundle; {link} bundle")),
        ("raw-file", "rm -r raw; echo x > raw".to_owned()),
        ("result-link", format!("rm -r result; {link} result")),
        ("result-folder", "mkdir -p result/result.json/x".to_owned()),
        ("manifest-folder", "mkdir -p manifest.json/x".to_owned()),
        ("logs-gone", "echo said >&2; rm -r logs".to_owned()),
        ("logs-link", format!("rm -r logs; {link} logs; echo said >&2")),
        ("log-pipe", "rm logs/stdout.txt; mkfifo logs/stdout.txt".to_owned()),
        ("everything-gone", "echo said >&2; rm -r \"$PWD\"".to_owned()),
    ] {
        server.skill(id, &format!("cat >/dev/null\n{sh}\necho '{{\"success\":true,\"data\":{{}}}}'\n"), json!({}));
        let (_, run) = server.finished(id);
        let job = server.get(&format!("/v1/jobs/{run}")).json();
        assert!(["succeeded", "failed"].contains(&job["status"].as_str().unwrap()), "{id}: {job}");
        for path in ["result", "bundle", "logs", "artifacts"] {
            assert_eq!(server.get(&format!("/v1/jobs/{run}/{path}")).status, 200, "{id}: {path}");
        }
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "{id}");
    }
}

#[test]
fn requests_that_are_not_http_end_their_connection_alone() {
    let server = Server::start();
    for request in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n12345",
        b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\nconnection: close\r\n\r\nzz\r\n",
    ] {
        let answer = raw(server.address, request);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let mut connection = std::net::TcpStream::connect(server.address).unwrap();
    // The server may close before it has read all of that.
    let _ = connection.write_all(head.as_bytes());
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_run_succeeds_whatever_its_skill_put_in_the_runners_places() {
    let server = Server::start();
    for (id, sh) in [
        ("bundle-file", "rm -r bundle; echo x > bundle"),
        ("raw-file", "rm -r raw; echo x > raw"),
        ("result-folder", "mkdir -p result/result.json/x"),
        ("manifest-folder", "mkdir -p manifest.json/x"),
        ("events-folder", "mkdir -p logs/events.jsonl/x"),
        ("everything-gone", "echo said >&2; rm -r \"$PWD\""),
    ] {
        server.skill(id, &format!("cat >/dev/null\n{sh}\necho '{{\"success\":true,\"data\":{{}}}}'\n"), json!({}));
        let (_, run) = server.finished(id);
        let job = server.get(&format!("/v1/jobs/{run}")).json();
        assert_eq!(job["status"], "succeeded", "{id}: {job}");
    }
}

#[test]
fn events_that_an_engine_forges_are_not_shown_while_it_runs() {
    let server = Server::start();
    for (id, sh) in [("forge", "echo '{\"forged\":1}' > logs/events.jsonl"), ("pipe", "mkfifo logs/events.jsonl")] {
        let sh = format!(
            "cat >/dev/null\nmkfifo gate\n{sh}\necho ready >&2\nread line < gate\necho '{{\"success\":true,\"data\":{{}}}}'\n"
        );
        server.skill(id, &sh, json!({}));
        let (_, run) = server.create(id);
        server.wait_for(&run, "raw.stderr", "ready");
        let history = server.get(&format!("/v1/jobs/{run}/events/history")).json();
        assert_eq!(history["events"][0]["type"], "conversation.started", "{id}");
        server.open_gate(&run, "on");
        server.finish(&run);
    }
}

#[test]
fn times_that_no_clock_can_count_are_refused_and_cost_no_slot() {
    let server = Server::with(&[("max_running_jobs", "1")]);
    server.skill("hello", HELLO, json!({}));
    for option in ["hard_timeout_seconds", "stall_timeout_seconds", "interactive_reply_timeout_sec"] {
        for seconds in [604_801, u64::MAX] {
            let answer = server.post("/v1/jobs", &json!({"skill_id": "hello", "runtime_options": {option: seconds}}));
            assert_eq!(answer.refusal(), (400, "INVALID_REQUEST".into()), "{option} {seconds}");
            assert_eq!(answer.json()["error"]["details"][0]["path"], format!("/runtime_options/{option}"));
        }
    }
    server.finished("hello");
}
