//! Artifacts and bundles: lists, downloads, validators, ranges.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::support::skill::GATED;
use crate::support::{Answer, Server};

const CONTENT: &[u8] = b"0123456789";
/// Leaves two files.
const WRITER: &str = "cat >/dev/null\nmkdir -p artifacts/sub\nprintf 0123456789 > 'artifacts/sub/r\u{e9}sum\u{e9} 1.txt'\n\
    : > artifacts/empty.bin\necho '{\"success\":true,\"data\":{}}'\n";
const PATH: &str = "artifacts/sub/r%C3%A9sum%C3%A9%201.txt";

fn written(server: &Server) -> (String, String) {
    let artifacts = json!([{"role": "report", "pattern": "sub/*.txt", "mime": "text/x-report", "required": true}]);
    server.skill("writer", WRITER, json!({"runner": {"artifacts": artifacts}}));
    server.finished("writer")
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn artifacts_are_listed_and_linked() {
    let server = Server::start();
    let (request, _) = written(&server);
    let manifest = json!([
        {"role": "output", "path_rel": "artifacts/empty.bin", "filename": "empty.bin",
         "mime": "application/octet-stream", "size": 0, "sha256": sha256(b""), "required": false},
        {"role": "report", "path_rel": "artifacts/sub/résumé 1.txt", "filename": "résumé 1.txt",
         "mime": "text/x-report", "size": 10, "sha256": sha256(CONTENT), "required": true},
    ]);
    let list = server.get(&format!("/v1/jobs/{request}/artifacts")).json();
    assert_eq!(
        list,
        json!({
            "request_id": request, "artifacts": ["artifacts/empty.bin", "artifacts/sub/résumé 1.txt"],
            "manifest": manifest,
        })
    );
    let result = server.get(&format!("/v1/jobs/{request}/result")).json();
    for artifact in result["result"]["artifacts"].as_array().unwrap() {
        let download = server.get(artifact["url"].as_str().unwrap());
        assert_eq!((download.status, json!(sha256(&download.body))), (200, artifact["sha256"].clone()));
    }
}

#[test]
fn an_artifact_is_an_attachment_with_its_type_and_hash() {
    let server = Server::start();
    let (request, _) = written(&server);
    let path = format!("/v1/jobs/{request}/artifacts/{PATH}");
    let check = |answer: &Answer| {
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), "text/x-report");
        assert_eq!(answer.header("content-length"), "10");
        assert_eq!(answer.header("etag"), format!("\"{}\"", sha256(CONTENT)));
        assert_eq!(answer.header("accept-ranges"), "bytes");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(
            answer.header("content-disposition"),
            "attachment; filename=\"r_sum_ 1.txt\"; filename*=UTF-8''r%C3%A9sum%C3%A9%201.txt"
        );
    };
    let whole = server.get(&path);
    check(&whole);
    assert_eq!(whole.body, CONTENT);
    let head = server.call("HEAD", &path).send();
    check(&head);
    assert_eq!(head.body, b"");
}

#[test]
fn an_artifact_the_client_has_is_not_sent_again() {
    let server = Server::start();
    let (request, _) = written(&server);
    let path = format!("/v1/jobs/{request}/artifacts/{PATH}");
    let etag = format!("\"{}\"", sha256(CONTENT));
    for known in [etag.clone(), format!("\"other\", W/{etag}"), "*".to_owned()] {
        let answer = server.call("GET", &path).header("if-none-match", &known).send();
        assert_eq!((answer.status, answer.header("etag"), answer.body.len()), (304, etag.as_str(), 0), "{known}");
    }
    assert_eq!(server.call("GET", &path).header("if-none-match", "\"other\"").send().status, 200);
}

#[test]
fn one_range_of_an_artifact_is_served() {
    let server = Server::start();
    let (request, _) = written(&server);
    let path = format!("/v1/jobs/{request}/artifacts/{PATH}");
    let part = |range: &str| server.call("GET", &path).header("range", range).send();
    for (range, served, content) in [
        ("bytes=0-0", "bytes 0-0/10", &b"0"[..]),
        ("bytes=3-5", "bytes 3-5/10", b"345"),
        ("bytes=8-", "bytes 8-9/10", b"89"),
        ("bytes=8-800", "bytes 8-9/10", b"89"),
        ("bytes=-2", "bytes 8-9/10", b"89"),
        ("bytes=-200", "bytes 0-9/10", CONTENT),
    ] {
        let answer = part(range);
        assert_eq!(
            (answer.status, answer.header("content-range"), &answer.body[..]),
            (206, served, content),
            "{range}"
        );
        assert_eq!(answer.header("content-length"), content.len().to_string());
    }
    for unsatisfiable in ["bytes=10-", "bytes=100-200", "bytes=-0"] {
        let answer = part(unsatisfiable);
        assert_eq!(answer.refusal(), (416, "RANGE_NOT_SATISFIABLE".into()), "{unsatisfiable}");
        assert_eq!(answer.header("content-range"), "bytes */10");
    }
    for ignored in ["bytes=0-1,4-5", "bytes=x", "chapters=1-2"] {
        assert_eq!((part(ignored).status, part(ignored).body), (200, CONTENT.to_vec()), "{ignored}");
    }
    let etag = format!("\"{}\"", sha256(CONTENT));
    let conditional =
        |etag: &str| server.call("GET", &path).header("range", "bytes=0-1").header("if-range", etag).send();
    assert_eq!((conditional(&etag).status, conditional("\"old\"").status), (206, 200));
    let empty = format!("/v1/jobs/{request}/artifacts/artifacts/empty.bin");
    assert_eq!((server.get(&empty).status, server.get(&empty).body.len()), (200, 0));
}

#[test]
fn a_large_artifact_arrives_whole() {
    let server = Server::start();
    let sh =
        "cat >/dev/null\nmkdir -p artifacts\nseq 1 400000 > artifacts/numbers\necho '{\"success\":true,\"data\":{}}'\n";
    server.skill("large", sh, json!({}));
    let (request, run) = server.finished("large");
    let answer = server.get(&format!("/v1/jobs/{request}/artifacts/artifacts/numbers"));
    assert_eq!(answer.body, std::fs::read(server.run_dir(&run).join("artifacts/numbers")).unwrap());
}

#[test]
fn the_bundle_is_there_at_the_end_and_not_before() {
    let server = Server::start();
    server.skill("gated", GATED, json!({}));
    for (debug, name) in [(false, "run_bundle.zip"), (true, "run_bundle_debug.zip")] {
        let options = json!({"debug": debug});
        let (request, run) = server.create_with(&json!({"skill_id": "gated", "runtime_options": options}));
        server.wait_for(&run, "raw.stderr", "ready");
        let path = format!("/v1/jobs/{request}/bundle");
        assert_eq!(server.get(&path).refusal(), (409, "BUNDLE_NOT_READY".into()));
        assert_eq!(server.get(&format!("/v1/jobs/{request}/artifacts")).json()["artifacts"], json!([]));
        server.open_gate(&run, "on");
        server.finish(&run);
        let bundle = server.get(&path);
        assert_eq!((bundle.status, bundle.header("content-type")), (200, "application/zip"));
        assert!(bundle.header("content-disposition").contains(name));
        assert_eq!(bundle.body, std::fs::read(server.run_dir(&run).join("bundle").join(name)).unwrap());
        let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bundle.body)).unwrap();
        let mut result = String::new();
        zip.by_name("result/result.json").unwrap().read_to_string(&mut result).unwrap();
        let served = server.get(&format!("/v1/jobs/{request}/result")).json();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&result).unwrap(), served["result"]);
    }
}

#[test]
fn a_bundle_is_made_once_for_all_who_ask_and_never_of_what_a_skill_forged_or_damage_changed() {
    let server = Server::start();
    let forging = "cat >/dev/null\nmkdir bundle\necho forged > bundle/run_bundle.zip\necho one > artifacts/a.txt\n\
        echo '{\"success\":true,\"data\":{}}'\n";
    server.skill("forging", forging, json!({}));
    let (request, run) = server.finished("forging");
    let folder = server.run_dir(&run);
    assert!(!folder.join("bundle").exists(), "nobody has asked yet");
    let path = format!("/v1/jobs/{request}/bundle");
    let bodies: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| server.get(&path).body)).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let zip = zip::ZipArchive::new(std::io::Cursor::new(bodies[0].clone())).unwrap();
    let mut names: Vec<String> = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
    names.sort_unstable();
    assert_eq!(names, ["artifacts/a.txt", "manifest.json", "result/result.json"]);
    assert!(bodies.iter().all(|body| *body == bodies[0]));

    std::fs::remove_dir_all(folder.join("bundle")).unwrap();
    assert_eq!(server.get(&path).body, bodies[0], "made again, it has the same bytes");
    std::fs::remove_dir_all(folder.join("bundle")).unwrap();
    std::fs::write(folder.join("artifacts/a.txt"), "two\n").unwrap();
    assert_eq!(server.get(&path).status, 500);
    assert!(!folder.join("bundle/run_bundle.zip").exists());
    std::fs::write(folder.join("artifacts/a.txt"), "one\n").unwrap();
    assert_eq!(server.get(&path).body, bodies[0]);
}

fn unzipped(bundle: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bundle)).unwrap();
    let count = zip.len();
    let read = |at: usize| {
        let mut entry = zip.by_index(at).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.name().unwrap().into_owned(), content)
    };
    (0..count).map(read).collect()
}

#[test]
fn the_debug_bundle_has_the_list_of_inputs_and_the_whole_log_and_is_held_against_the_proof() {
    let server = Server::with(&[("seal_grace_seconds", "0")]);
    let input = json!({"type": "object", "properties": {"paper": {"type": "string"}}, "required": ["paper"]});
    let copying = "cat >/dev/null\nmkdir -p artifacts\ncp uploads/paper artifacts/copy\n\
        echo '{\"success\":true,\"data\":{}}'\n";
    server.skill("copying", copying, json!({"input": input}));
    let body = json!({"skill_id": "copying", "runtime_options": {"debug": true}});
    let (request, run) = server.create_with(&body);
    let upload = server.call("POST", &format!("/v1/jobs/{request}/upload")).files(&[("paper", "mine.txt", b"words")]);
    let left = server.watch_leave(&run);
    assert_eq!(upload.send().status, 200);
    server.finish(&run);
    let path = format!("/v1/jobs/{request}/bundle");
    let bodies: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..6).map(|_| scope.spawn(|| server.get(&path).body)).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert!(bodies.iter().all(|body| *body == bodies[0]), "those who asked at once got different bytes");
    let files = unzipped(&bodies[0]);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        ".script/skills/copying/SKILL.md",
        ".script/skills/copying/assets/input.schema.json",
        ".script/skills/copying/assets/output.schema.json",
        ".script/skills/copying/assets/parameter.schema.json",
        ".script/skills/copying/assets/runner.json",
        ".script/skills/copying/scripts/run.sh",
        "artifacts/copy",
        "input.json",
        "input_manifest.json",
        "logs/events.jsonl",
        "logs/stderr.txt",
        "logs/stdout.txt",
        "manifest.json",
        "raw/engine_output.json",
        "raw/engine_output.txt",
        "result/result.json",
        "result/validation.json",
        "skill.json",
        "uploads/paper",
    ];
    assert_eq!(names, expected);
    let list: serde_json::Value = serde_json::from_slice(&files["input_manifest.json"]).unwrap();
    let paper = json!({"name": "paper", "size": 5, "sha256": sha256(b"words"), "file_name": "mine.txt"});
    assert_eq!(list["files"], json!([paper]));
    let log: Vec<serde_json::Value> = files["logs/events.jsonl"]
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(json!(log), server.get(&format!("/v1/jobs/{run}/events/history")).json()["events"]);
    assert_eq!(log.last().unwrap()["type"], "conversation.completed");
    let uploaded = log.iter().find(|event| event["type"] == "input.uploaded").unwrap();
    assert_eq!(list["manifest_sha256"], uploaded["data"]["manifest_sha256"]);
    let told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(server.run_dir(&run).join("bundle/manifest_debug.json")).unwrap())
            .unwrap();
    let listed: Vec<serde_json::Value> = files
        .iter()
        .map(|(path, content)| json!({"path": path, "size": content.len(), "sha256": sha256(content)}))
        .collect();
    assert_eq!(told, json!({"files": listed}));

    // Made of the sealed log, it has the same bytes; made of a file that is not what it was, there is none.
    left.wait(&server);
    let folder = server.run_dir(&run);
    std::fs::remove_dir_all(folder.join("bundle")).unwrap();
    assert!(server.get(&path).body == bodies[0], "made of the sealed log, the bundle has other bytes");
    for name in ["uploads/paper", "input.json", "logs/stdout.txt", "logs/events.jsonl", "raw/engine_output.txt"] {
        std::fs::remove_dir_all(folder.join("bundle")).unwrap();
        let whole = std::fs::read(folder.join(name)).unwrap();
        let mut changed = whole.clone();
        changed[0] ^= 1;
        std::fs::write(folder.join(name), changed).unwrap();
        assert_eq!(server.get(&path).refusal(), (500, "DATA_CORRUPT".into()), "{name}");
        assert!(!folder.join("bundle/run_bundle_debug.zip").exists(), "{name}");
        std::fs::write(folder.join(name), whole).unwrap();
        assert!(server.get(&path).body == bodies[0], "{name}");
    }
}

/// The HTTP library refuses what it cannot read with such a text; the service puts an envelope in its place.
#[test]
fn an_artifact_with_the_text_of_a_refusal_in_it_is_sent_as_it_is() {
    let server = Server::start();
    let refusal = "HTTP/1.1 400 Bad Request\\r\\nx: y\\r\\ncontent-length: 0\\r\\n\\r\\n";
    let sh = format!(
        "cat >/dev/null\nmkdir -p artifacts\nhead -c 5242880 /dev/zero > artifacts/d.bin\nprintf '{refusal}' >> artifacts/d.bin\n\
         echo '{{\"success\":true,\"data\":{{}}}}'\n"
    );
    server.skill("refuser", &sh, json!({}));
    let (request, _) = server.finished("refuser");
    let path = format!("/v1/jobs/{request}/artifacts/artifacts/d.bin");
    let whole = server.get(&path);
    let expected = server.get(&format!("/v1/jobs/{request}/artifacts")).json()["manifest"][0]["sha256"].clone();
    assert_eq!((whole.status, json!(sha256(&whole.body))), (200, expected));
    let end = server.call("GET", &path).header("range", "bytes=5242880-").send();
    assert_eq!(end.text(), "HTTP/1.1 400 Bad Request\r\nx: y\r\ncontent-length: 0\r\n\r\n");
}
