//! Skills of one run: uploaded with it, judged like an installation, never installed, and gone when the run is over.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::http::create::zip_of;
use crate::interactive::pose::{self, Pose};
use crate::support::skill::{GATED, HELLO};
use crate::support::{Answer, Server, Sse, script_skill};

const RUNS: &str = "/v1/temp-skill-runs";
const UNKNOWN: &str = "(known with the upload)";

/// The zip of a skill that `write` makes in a folder.
fn zipped(write: impl FnOnce(&Path)) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let mut waiting = vec![folder.path().to_owned()];
    while let Some(at) = waiting.pop() {
        let mut entries: Vec<_> = std::fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let name = path.strip_prefix(folder.path()).unwrap().to_str().unwrap();
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(&std::fs::read(&path).unwrap()).unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
}

/// The zip of a script skill.
fn package(id: &str, sh: &str, extras: Value) -> Vec<u8> {
    zipped(|folder| script_skill(folder, id, sh, extras))
}

/// A run that waits for its package; its request id and run id.
fn created(server: &Server, body: &Value) -> (String, String) {
    let answer = server.post(RUNS, body);
    let created = answer.json();
    assert_eq!(answer.status, 201, "{created}");
    assert_eq!((&created["awaiting_upload"], &created["status"]), (&json!(true), &json!("queued")));
    let text = |key: &str| created[key].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), format!("{RUNS}/{}", text("request_id")));
    (text("request_id"), text("run_id"))
}

fn upload(server: &Server, request: &str, parts: &[(&str, &[u8])]) -> Answer {
    server.call("POST", &format!("{RUNS}/{request}/upload")).parts(parts).send()
}

/// A finished run of a package.
fn finished(server: &Server, body: &Value, parts: &[(&str, &[u8])]) -> (Value, String) {
    let (request, run) = created(server, body);
    let answer = upload(server, &request, parts);
    assert_eq!(answer.status, 200, "{}", answer.text());
    server.finish(&run);
    (answer.json(), run)
}

fn job(server: &Server, run: &str) -> Value {
    server.get(&format!("{RUNS}/{run}")).json()
}

/// Everything of a skill that is left below the data folder.
fn left_of_packages(server: &Server) -> Vec<String> {
    server.drain();
    let of_skill =
        |path: &String| path.contains("SKILL.md") || path.starts_with("requests/") || path.starts_with("tmp/");
    server.left_behind().into_iter().filter(of_skill).collect()
}

#[test]
fn an_uploaded_script_skill_runs_once_and_leaves_nothing() {
    let server = Server::start();
    let zip = package("one-off", HELLO, json!({}));
    let (request, run) = created(&server, &json!({}));
    let before = job(&server, &run);
    assert_eq!((&before["skill_id"], &before["awaiting_upload"]), (&json!(UNKNOWN), &json!(true)));
    assert_eq!(server.get(&format!("{RUNS}/{request}/result")).refusal(), (409, "RESULT_NOT_READY".into()));
    let uploaded = upload(&server, &request, &[("skill_package", &zip)]);
    assert_eq!(
        (uploaded.status, uploaded.json()),
        (200, json!({"request_id": request, "cache_hit": false, "status": "queued", "extracted_files": []}))
    );
    let events = server.finish(&run);
    assert_eq!(events[0]["data"]["skill"], json!({"id": UNKNOWN, "version": "", "fingerprint": ""}));
    assert_eq!((&events[0]["engine"], &events[0]["data"]["temporary"]), (&json!(UNKNOWN), &json!(true)));
    let package = &events[1]["data"]["package"];
    assert_eq!((&package["skill"]["id"], &package["skill"]["version"]), (&json!("one-off"), &json!("1.2.3")));
    assert!(events[1..].iter().all(|event| event["engine"] == "script"), "{events:?}");
    let after = job(&server, &run);
    assert_eq!(
        (&after["skill_id"], &after["skill_version"], &after["engine"], &after["status"]),
        (&json!("one-off"), &json!("1.2.3"), &json!("script"), &json!("succeeded"))
    );
    for route in ["", "/result", "/artifacts", "/logs", "/events/history", "/explain/cache", "/bundle"] {
        let (one, other) =
            (server.get(&format!("{RUNS}/{request}{route}")), server.get(&format!("/v1/jobs/{run}{route}")));
        assert_eq!((one.status, one.body), (200, other.body), "{route}");
    }
    assert_eq!(server.get(&format!("{RUNS}/{request}/interaction/pending")).refusal(), (400, "NOT_INTERACTIVE".into()));
    let listed = server.get(RUNS).json();
    assert_eq!(listed["jobs"][0]["run_id"], json!(run));
    assert_eq!(server.get("/v1/skills").json()["skills"], json!([]), "it was never installed");
    assert_eq!(left_of_packages(&server), Vec::<String>::new());
    assert_eq!(upload(&server, &request, &[("skill_package", &zip)]).refusal(), (409, "RUN_FINAL".into()));
}

#[test]
fn whatever_is_asked_of_a_temporary_run_is_answered_as_of_any_other() {
    let server = Server::start();
    let sh = format!("mkdir -p artifacts/sub\nprintf 0123456789 >artifacts/sub/note.txt\n{HELLO}");
    let zip = package("one-off", &sh, json!({}));
    let (uploaded, run) = finished(&server, &json!({}), &[("skill_package", &zip)]);
    let request = uploaded["request_id"].as_str().unwrap();
    for (route, status) in [
        ("", 200),
        ("?at_seq=2", 200),
        ("/result", 200),
        ("/artifacts", 200),
        ("/artifacts/artifacts/sub/note.txt", 200),
        ("/artifacts/artifacts/none.txt", 404),
        ("/bundle", 200),
        ("/export", 200),
        ("/explain?path=/data/greeting", 200),
        ("/explain", 200),
        ("/explain/cache", 200),
        ("/logs", 200),
        ("/logs/range?stream=stderr&byte_from=3&byte_to=9", 200),
        ("/logs/range?stream=nothing", 400),
        ("/events/history?from_seq=2", 200),
        ("/interaction/pending", 400),
    ] {
        let told = |answer: Answer| {
            let headers = ["content-type", "content-disposition", "etag"].map(|name| answer.header(name).to_owned());
            // An error names its request, each its own.
            let body = if answer.status == 200 { answer.body.clone() } else { answer.refusal().1.into_bytes() };
            (answer.status, headers, body)
        };
        let one = told(server.get(&format!("{RUNS}/{request}{route}")));
        assert_eq!(one.0, status, "{route}: {}", String::from_utf8_lossy(&one.2));
        assert_eq!(one, told(server.get(&format!("/v1/jobs/{run}{route}"))), "{route}");
    }
    for query in ["", "?cursor=3"] {
        let feed = |base: &str, id: &str| Sse::open(server.address, &format!("{base}/{id}/events{query}"), &[]);
        let (one, other) = (feed(RUNS, request), feed("/v1/jobs", &run));
        assert_eq!((one.status, other.status), (200, 200));
        let one = one.rest();
        assert!(one.last().unwrap().data.contains("conversation.completed"), "{one:?}");
        assert_eq!(one, other.rest());
    }
}

#[test]
fn a_package_is_kept_where_that_is_asked_for() {
    let server = Server::start();
    let zip = package("one-off", HELLO, json!({}));
    let body = json!({"runtime_options": {"debug_keep_temp": true}});
    let (_, run) = finished(&server, &body, &[("skill_package", &zip)]);
    server.orchestrator_sweeps();
    assert_eq!(left_of_packages(&server), [format!("runs/{run}/.script/skills/one-off/SKILL.md")]);
}

#[test]
fn the_debug_bundle_holds_a_package_that_is_kept_and_no_other() {
    let server = Server::start();
    let zip = package("one-off", HELLO, json!({}));
    for (keep, expected) in [(true, true), (false, false)] {
        let body = json!({"runtime_options": {"debug": true, "debug_keep_temp": keep}});
        let (_, run) = finished(&server, &body, &[("skill_package", &zip)]);
        // Before and after the package is removed.
        let bundle = || server.get(&format!("/v1/jobs/{run}/bundle")).body;
        let first = bundle();
        server.orchestrator_sweeps();
        std::fs::remove_dir_all(server.run_dir(&run).join("bundle")).unwrap();
        assert!(bundle() == first, "the bundle has other bytes, keep: {keep}");
        let zip = zip::ZipArchive::new(std::io::Cursor::new(first)).unwrap();
        assert_eq!(zip.index_for_name(".script/skills/one-off/SKILL.md").is_some(), expected);
    }
}

#[test]
fn a_prompt_skill_is_uploaded_the_same_way() {
    let pose = Pose::new();
    let command = pose.command();
    pose.plays(&[pose::says("{\"name\": \"Ann\"}")]);
    let server = Server::with(&[("engines.codex.command", &command)]);
    let zip = zipped(|folder| pose::skill(folder, "asks", None));
    let (_, run) = finished(&server, &json!({"engine": "codex", "model": "m"}), &[("skill_package", &zip)]);
    let result = server.get(&format!("{RUNS}/{run}/result")).json();
    assert_eq!(result["result"]["data"], json!({"name": "Ann"}), "{result}");
    assert_eq!(job(&server, &run)["engine"], "codex");
    assert_eq!(left_of_packages(&server), Vec::<String>::new());
}

#[test]
fn everything_wrong_with_a_package_is_said_at_once_and_a_better_one_may_follow() {
    let server = Server::start();
    let (request, run) = created(&server, &json!({}));
    let broken = package(
        "one-off",
        HELLO,
        json!({"runner": {"version": "one", "execution_modes": []}, "input": {"type": "array"}}),
    );
    let before = server.left_behind();
    let refused = upload(&server, &request, &[("skill_package", &broken)]);
    assert_eq!(refused.refusal(), (400, "SKILL_PACKAGE_INVALID".into()));
    let findings = refused.json()["error"]["details"]["findings"].as_array().unwrap().clone();
    assert!(findings.len() >= 3 && findings.iter().all(|finding| finding["file"].is_string()), "{findings:?}");
    assert_eq!(server.left_behind(), before);
    assert_eq!(job(&server, &run)["awaiting_upload"], true);
    assert_eq!(upload(&server, &request, &[("skill_package", &package("one-off", HELLO, json!({})))]).status, 200);
    server.finish(&run);
}

#[test]
fn what_the_zip_breaks_has_its_code_and_leaves_nothing() {
    let server = Server::with(&[("temp_skill_package_max_bytes", "20000")]);
    let (request, run) = created(&server, &json!({}));
    let before = server.left_behind();
    let good = package("one-off", HELLO, json!({}));
    let noise: Vec<u8> = (0..30_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let slip = zip_of(&[("one-off/../../../x", b"x")]);
    type Parts<'a> = &'a [(&'a str, &'a [u8])];
    let cases: [(Parts<'_>, u16, &str); 8] = [
        (&[("skill_package", b"no zip")], 400, "INVALID_ZIP"),
        (&[("skill_package", &good[..good.len() / 2])], 400, "INVALID_ZIP"),
        (&[("skill_package", &slip)], 400, "UNSAFE_PATH"),
        (&[("skill_package", &noise)], 413, "PAYLOAD_TOO_LARGE"),
        (&[("file", &good)], 400, "INVALID_REQUEST"),
        (&[("skill_package", &good), ("skill_package", &good)], 400, "INVALID_REQUEST"),
        (&[("skill_package", &good), ("other", b"x")], 400, "UNKNOWN_INPUT_KEY"),
        (&[("skill_package", &good), ("file", b"no zip")], 400, "INVALID_ZIP"),
    ];
    for (parts, status, code) in cases {
        assert_eq!(upload(&server, &request, parts).refusal(), (status, code.to_owned()));
        assert_eq!(server.left_behind(), before, "{code}");
    }
    assert_eq!(upload(&server, &request, &[("skill_package", &good)]).status, 200);
    server.finish(&run);
}

#[test]
fn the_request_is_judged_by_the_package_when_that_is_there() {
    let server = Server::start();
    let refusals = [
        (json!({"skill_id": "x"}), "INVALID_REQUEST"),
        (json!({"engine": "nobody"}), "SKILL_ENGINE_UNSUPPORTED"),
        (json!({"await_upload": false}), "INVALID_REQUEST"),
        (json!({"runtime_options": {"hard_timeout_seconds": 0}}), "INVALID_REQUEST"),
        (json!({"unknown": 1}), "INVALID_REQUEST"),
        (json!({"model": ""}), "INVALID_REQUEST"),
    ];
    for (body, code) in refusals {
        assert_eq!(server.post(RUNS, &body).refusal(), (400, code.to_owned()), "{body}");
    }
    assert_eq!(server.left_behind(), Vec::<String>::new());
    let input = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "x-input-source": "inline"}}});
    let zip = package("one-off", HELLO, json!({"input": input}));
    for (body, code) in [
        (json!({"input": {"n": "three"}}), "INPUT_VALIDATION_FAILED"),
        (json!({"engine": "codex", "input": {"n": 3}}), "SKILL_ENGINE_UNSUPPORTED"),
        (json!({"model": "m", "input": {"n": 3}}), "MODEL_NOT_ALLOWED"),
        (
            json!({"runtime_options": {"execution_mode": "interactive"}, "input": {"n": 3}}),
            "SKILL_EXECUTION_MODE_UNSUPPORTED",
        ),
    ] {
        let (request, run) = created(&server, &body);
        assert_eq!(upload(&server, &request, &[("skill_package", &zip)]).refusal(), (400, code.to_owned()), "{body}");
        assert_eq!(job(&server, &run)["status"], "queued", "it may get another package");
    }
    finished(&server, &json!({"input": {"n": 3}}), &[("skill_package", &zip)]);
}

#[test]
fn files_come_with_the_package_and_both_are_part_of_the_cache_key() {
    let server = Server::start();
    let reader =
        "cat >/dev/null\necho \"{\\\"success\\\":true,\\\"data\\\":{\\\"text\\\":\\\"$(cat uploads/paper)\\\"}}\"\n";
    let input =
        json!({"input": {"type": "object", "properties": {"paper": {"type": "string"}}, "required": ["paper"]}});
    let zip = package("reads", reader, input.clone());
    let (one, two) = (zip_of(&[("paper", b"one")]), zip_of(&[("paper", b"two")]));
    let run = |package: &[u8], file: &[u8]| {
        let (answer, run) = finished(&server, &json!({}), &[("skill_package", package), ("file", file)]);
        let text = server.get(&format!("{RUNS}/{run}/result")).json()["result"]["data"]["text"].clone();
        (answer["cache_hit"].clone(), text, run)
    };
    let (hit, text, first) = run(&zip, &one);
    assert_eq!((hit, text), (json!(false), json!("one")));
    let (hit, text, again) = run(&zip, &one);
    assert_eq!((hit, text), (json!(true), json!("one")));
    assert_eq!(server.get(&format!("{RUNS}/{again}/explain/cache")).json()["nearest_run"], json!(first));
    assert_eq!(run(&zip, &two).0, json!(false));
    let (hit, _, other) = run(&package("reads", &format!("{reader}# another\n"), input), &one);
    assert_eq!(hit, json!(false));
    let story = server.get(&format!("{RUNS}/{other}/explain/cache")).json();
    let parts: Vec<&str> =
        story["differing_parts"].as_array().unwrap().iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert_eq!((&story["nearest_run"], parts), (&json!(first), vec!["skill_content", "package"]), "{story}");
    assert_eq!(left_of_packages(&server), Vec::<String>::new());
}

#[test]
fn a_run_without_its_package_can_be_asked_for_again_canceled_and_kept_over_a_restart() {
    let server = Server::start();
    let ask =
        |server: &Server, body: &Value| server.call("POST", RUNS).header("idempotency-key", "k").json(body).send();
    let body = json!({"parameter": {"a": 1}});
    let first = ask(&server, &body).json();
    assert_eq!(ask(&server, &body).json(), first);
    assert_eq!(ask(&server, &json!({})).refusal(), (409, "IDEMPOTENCY_CONFLICT".into()));
    let (canceled, run) = created(&server, &json!({}));
    let answer = server.post(&format!("{RUNS}/{canceled}/cancel"), &json!({})).json();
    assert_eq!((&answer["accepted"], &answer["status"]), (&json!(true), &json!("canceled")));
    server.finish(&run);
    let server = server.restarted(&[]);
    assert_eq!(ask(&server, &body).json(), first);
    let (request, run) = (first["request_id"].as_str().unwrap(), first["run_id"].as_str().unwrap());
    assert_eq!(job(&server, run)["awaiting_upload"], true);
    // As an upload leaves them that a kill cut short.
    for copy in [".script/skills/one-off", ".codex/skills/another"] {
        std::fs::create_dir_all(server.run_dir(run).join(copy)).unwrap();
        std::fs::write(server.run_dir(run).join(copy).join("SKILL.md"), "stale").unwrap();
    }
    let zip = package("one-off", HELLO, json!({}));
    assert_eq!(upload(&server, request, &[("skill_package", &zip)]).status, 200);
    let events = server.finish(run);
    assert_eq!(events[0]["data"]["parameter"], json!({"a": 1}));
    assert_eq!(left_of_packages(&server), Vec::<String>::new());
}

#[test]
fn the_sweeper_ends_what_was_never_uploaded_and_a_start_removes_what_was_left() {
    let server = Server::start();
    let (_, abandoned) = created(&server, &json!({}));
    let (request, live) = created(&server, &json!({}));
    let zip = package("gated", GATED, json!({}));
    assert_eq!(upload(&server, &request, &[("skill_package", &zip)]).status, 200);
    server.wait_for(&live, "raw.stderr", "ready");
    server.orchestrator_sweeps();
    server.finish(&abandoned);
    let ended = job(&server, &abandoned);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("MISSING_INPUT_FILES")));
    assert!(server.run_dir(&live).join(".script/skills/gated/SKILL.md").exists(), "a run under way keeps its package");
    server.open_gate(&live, "on");
    server.finish(&live);
    server.drain();
    // As a service leaves it that dies right after a run's last event, or before its first.
    let (copy, orphan) = (server.run_dir(&live).join(".script/skills/gated"), server.data().join("requests"));
    std::fs::create_dir_all(&copy).unwrap();
    std::fs::write(copy.join("SKILL.md"), "left").unwrap();
    let orphan = orphan.join("0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11");
    std::fs::create_dir_all(&orphan).unwrap();
    std::fs::set_permissions(&orphan, Permissions::from_mode(0o1700)).unwrap();
    std::fs::write(orphan.join("request.json"), "{}").unwrap();
    let server = server.restarted(&[]);
    assert_eq!(left_of_packages(&server), Vec::<String>::new());
}

impl Server {
    /// Sweep as if the longest time to wait for a package were over.
    fn orchestrator_sweeps(&self) {
        self.block_on(self.orchestrator.sweep_temp_runs(Duration::ZERO));
    }
}
