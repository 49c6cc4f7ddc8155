//! Equal runs share one result: hits, misses, runs at the same time, restarts, clean-up, and what `explain` says.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};
use skill_runner::domain::cache_key::sha256_hex;

use crate::cli::place::Place;
use crate::http::create::zip_of;
use crate::support::Server;
use crate::support::skill::HELLO;

/// Leaves two artifacts and answers with its input.
const MAKER: &str = "cat >/dev/null\nmkdir -p artifacts/deep\necho one > artifacts/deep/a.txt\necho two > artifacts/b.txt\n\
    echo '{\"success\":true,\"action\":\"run\",\"data\":{\"x\":1.0}}'\n";

/// Says it is ready, waits at its gate; succeeds unless it is told to fail.
const GATED: &str = "cat >/dev/null\nmkfifo gate\necho ready >&2\nread line < gate\n\
    if [ \"$line\" = fail ]; then echo '{\"success\":false,\"action\":\"run\",\"error\":{\"code\":\"DEMO\",\"message\":\"no\"}}'; exit 1; fi\n\
    echo '{\"success\":true,\"action\":\"run\",\"data\":{}}'\n";

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn create(server: &Server, body: &Value) -> Value {
    let answer = server.post("/v1/jobs", body);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

fn run_of(created: &Value) -> String {
    created["run_id"].as_str().unwrap().to_owned()
}

fn job(server: &Server, run: &str) -> Value {
    server.get(&format!("/v1/jobs/{run}")).json()
}

fn same_file(server: &Server, one: &str, other: &str, file: &str) -> bool {
    // A run that took a result gets its folder when somebody looks at its files.
    assert_eq!(server.get(&format!("/v1/management/runs/{other}/files")).status, 200);
    let inode = |run: &str| std::fs::metadata(server.run_dir(run).join(file)).unwrap().ino();
    inode(one) == inode(other)
}

fn unzipped(zip: Vec<u8>, name: &str) -> Value {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
    serde_json::from_reader(zip.by_name(name).unwrap()).unwrap()
}

/// A finished run of a body; it was made, not taken.
fn made(server: &Server, body: &Value) -> String {
    let created = create(server, body);
    let run = run_of(&created);
    assert_eq!(created["cache_hit"], false);
    let events = server.finish(&run);
    assert!(types(&events).contains(&"turn.started"), "{events:?}");
    assert_eq!(job(server, &run)["cache_hit"], false);
    run
}

/// A run of a body that was spared its engine.
fn taken(server: &Server, body: &Value) -> String {
    let created = create(server, body);
    let run = run_of(&created);
    assert_eq!((&created["cache_hit"], &created["status"]), (&json!(true), &json!("succeeded")), "{created}");
    let events = server.finish(&run);
    assert!(!types(&events).contains(&"turn.started"), "{events:?}");
    run
}

#[test]
fn a_hit_is_a_run_of_its_own_with_the_files_and_the_artifacts_proof_of_its_source() {
    let server = Server::start();
    server.skill("maker", MAKER, json!({}));
    let body = json!({"skill_id": "maker", "parameter": {"b": [1, {"y": 1, "x": 2}], "a": 1}});
    let source = made(&server, &body);
    let created = create(&server, &json!({"parameter": {"a": 1, "b": [1, {"x": 2, "y": 1}]}, "skill_id": "maker"}));
    let hit = run_of(&created);
    assert_eq!((&created["cache_hit"], &created["status"]), (&json!(true), &json!("succeeded")));
    let events = server.finish(&hit);
    let expected = [
        "conversation.started",
        "run.cache_hit",
        "artifact.indexed",
        "artifact.indexed",
        "conversation.state.changed",
        "conversation.completed",
    ];
    assert_eq!(types(&events), expected);
    assert_eq!(events[1]["data"]["source_run_id"], json!(source));
    assert_eq!(events[1]["data"]["cache_key"], events[0]["data"]["cache_key"]);
    assert_eq!(
        (&events[4]["data"]["from"], &events[4]["data"]["to"], &events[4]["data"]["trigger"]),
        (&json!("queued"), &json!("succeeded"), &json!("run.cache_hit"))
    );
    let last = &events[5]["data"];
    let proof = server.events(&source, 0).until_end().last().unwrap()["data"]["proof"].clone();
    assert_eq!(last["completion"], "cache");
    assert_eq!(last["proof"]["artifacts_sha256"], proof["artifacts_sha256"]);
    assert_ne!(last["proof"]["chain_sha256"], proof["chain_sha256"], "the chain is over its own log");
    assert_eq!(last["proof"]["streams"]["stdout"]["bytes"], 0);
    let told = job(&server, &hit);
    assert_eq!((&told["cache_hit"], &told["status"]), (&json!(true), &json!("succeeded")));

    for file in ["artifacts/deep/a.txt", "artifacts/b.txt", "result/validation.json"] {
        assert!(same_file(&server, &source, &hit, file), "{file}");
    }
    let result = |run: &str| server.get(&format!("/v1/jobs/{run}/result")).json()["result"].take();
    let (theirs, mut ours) = (result(&source), result(&hit));
    let url = format!("/v1/jobs/{}/artifacts/artifacts/b.txt", created["request_id"].as_str().unwrap());
    assert_eq!(ours["artifacts"][0]["url"], json!(url));
    assert_eq!(server.get(&url).text(), "two\n");
    assert_eq!(unzipped(server.get(&format!("/v1/jobs/{hit}/bundle")).body, "result/result.json"), ours);
    for (mine, theirs) in
        ours["artifacts"].as_array_mut().unwrap().iter_mut().zip(theirs["artifacts"].as_array().unwrap())
    {
        mine["url"] = theirs["url"].clone();
    }
    assert_eq!(ours, theirs, "but for the addresses the results are the same");
    let text = std::fs::read_to_string(server.run_dir(&hit).join("result/result.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), result(&hit), "the folder has what was told before");
    assert!(text.contains("\"x\": 1.0"), "numbers keep their text: {text}");
    assert_eq!(last["proof"]["result_sha256"], json!(sha256_hex(text.as_bytes())), "known before there was a file");
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(server.run_dir(&hit).join("manifest.json")).unwrap()).unwrap();
    assert_eq!(last["proof"]["files_sha256"], manifest["files_sha256"]);
    let files: Vec<&Value> = manifest["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(files, ["input.json", "result/result.json", "result/validation.json", "skill.json"]);
}

#[test]
fn a_result_that_names_no_run_is_shared_whole_and_its_bundle_has_the_same_bytes() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let source = made(&server, &json!({"skill_id": "hello"}));
    let hit = taken(&server, &json!({"skill_id": "hello", "runtime_options": {"hard_timeout_seconds": 77}}));
    assert!(same_file(&server, &source, &hit, "result/result.json"));
    let bundle = |run: &str| server.get(&format!("/v1/jobs/{run}/bundle"));
    assert_eq!((bundle(&hit).status, bundle(&hit).body), (200, bundle(&source).body));
    // A run for debugging has everything of its own, and is told apart from others: scripts know that they are debugged.
    let debug = json!({"skill_id": "hello", "runtime_options": {"debug": true}});
    made(&server, &debug);
    let hit = taken(&server, &debug);
    assert_eq!(server.get(&format!("/v1/jobs/{hit}/bundle")).status, 200);
}

#[test]
fn warnings_of_the_result_stand_in_the_log_that_takes_it() {
    let server = Server::start();
    let fenced = "cat >/dev/null\nprintf '```json\\n{\"success\":true,\"data\":{}}\\n```\\n'\n";
    server.skill("fenced", fenced, json!({}));
    let source = made(&server, &json!({"skill_id": "fenced"}));
    let hit = taken(&server, &json!({"skill_id": "fenced"}));
    let warnings = job(&server, &source)["warnings"].take();
    assert_eq!(warnings.as_array().unwrap().len(), 1, "{warnings}");
    assert_eq!(job(&server, &hit)["warnings"], warnings);
}

#[test]
fn uploaded_files_are_part_of_the_key() {
    let server = Server::start();
    let reader =
        "cat >/dev/null\necho \"{\\\"success\\\":true,\\\"data\\\":{\\\"text\\\":\\\"$(cat uploads/paper)\\\"}}\"\n";
    let input = json!({"type": "object", "properties": {"paper": {"type": "string"}}, "required": ["paper"]});
    server.skill("reader", reader, json!({"input": input}));
    let upload = |text: &str| {
        let created = create(&server, &json!({"skill_id": "reader"}));
        assert_eq!((&created["cache_hit"], &created["awaiting_upload"]), (&json!(false), &json!(true)));
        let zip = zip_of(&[("paper", text.as_bytes())]);
        let path = format!("/v1/jobs/{}/upload", created["request_id"].as_str().unwrap());
        let uploaded = server.call("POST", &path).parts(&[("file", &zip)]).send().json();
        let run = run_of(&created);
        let events = server.finish(&run);
        (uploaded, run, types(&events).join(" "))
    };
    let (first, source, _) = upload("one");
    assert_eq!((&first["cache_hit"], &first["status"]), (&json!(false), &json!("queued")));
    assert_eq!(upload("two").0["cache_hit"], false);
    let (again, hit, told) = upload("one");
    assert_eq!((&again["cache_hit"], &again["status"]), (&json!(true), &json!("succeeded")));
    let expected =
        "conversation.started input.uploaded run.cache_hit conversation.state.changed conversation.completed";
    assert_eq!(told, expected);
    let result = |run: &str| server.get(&format!("/v1/jobs/{run}/result")).json()["result"].take();
    assert_eq!((result(&hit), &result(&hit)["data"]["text"]), (result(&source), &json!("one")));
}

#[test]
fn no_cache_neither_reads_nor_writes_and_failures_are_not_kept() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let alone = json!({"skill_id": "hello", "runtime_options": {"no_cache": true}});
    made(&server, &alone);
    made(&server, &json!({"skill_id": "hello"}));
    made(&server, &alone);
    taken(&server, &json!({"skill_id": "hello"}));
    server.skill("fails", "cat >/dev/null\nexit 3\n", json!({}));
    made(&server, &json!({"skill_id": "fails"}));
    made(&server, &json!({"skill_id": "fails"}));
    // Another content is another skill, whatever its version says.
    server.skill("hello", &format!("{HELLO}# edited\n"), json!({}));
    made(&server, &json!({"skill_id": "hello"}));
}

/// A gated run that is under way, and so many equal ones that wait for it.
fn led(server: &Server, followers: usize) -> (String, Vec<String>) {
    server.skill("gated", GATED, json!({}));
    let body = json!({"skill_id": "gated"});
    let leader = run_of(&create(server, &body));
    server.wait_for(&leader, "raw.stderr", "ready");
    let waiting: Vec<String> = (0..followers).map(|_| run_of(&create(server, &body))).collect();
    for run in &waiting {
        let told = job(server, run);
        assert_eq!((&told["status"], &told["queue_position"]), (&json!("queued"), &Value::Null), "{told}");
    }
    (leader, waiting)
}

/// How a run ended: its status, and whether it had an engine of its own.
fn ended(server: &Server, run: &str) -> (String, bool) {
    let events = server.finish(run);
    let status = job(server, run)["status"].as_str().unwrap().to_owned();
    (status, types(&events).contains(&"turn.started"))
}

#[test]
fn equal_requests_at_the_same_time_run_once_and_share() {
    let server = Server::with(&[("max_running_jobs", "2")]);
    let (leader, waiting) = led(&server, 5);
    // They hold no slot: another run goes past them.
    server.skill("hello", HELLO, json!({}));
    made(&server, &json!({"skill_id": "hello"}));
    server.open_gate(&leader, "on");
    assert_eq!(ended(&server, &leader), ("succeeded".into(), true));
    for run in &waiting {
        assert_eq!(ended(&server, run), ("succeeded".into(), false));
        assert_eq!(job(&server, run)["cache_hit"], true);
    }
}

#[test]
fn when_the_first_fails_or_is_canceled_the_next_one_runs_itself() {
    let server = Server::with(&[("max_running_jobs", "1")]);
    let (leader, waiting) = led(&server, 4);
    server.open_gate(&leader, "fail");
    assert_eq!(ended(&server, &leader), ("failed".into(), true));
    server.wait_for(&waiting[0], "raw.stderr", "ready");
    // One that waits is canceled at once and holds up nobody.
    let canceled = server.post(&format!("/v1/jobs/{}/cancel", waiting[1]), &json!({})).json();
    assert_eq!((&canceled["status"], &canceled["accepted"]), (&json!("canceled"), &json!(true)));
    assert_eq!(ended(&server, &waiting[1]), ("canceled".into(), false));
    server.post(&format!("/v1/jobs/{}/cancel", waiting[0]), &json!({}));
    assert_eq!(ended(&server, &waiting[0]), ("canceled".into(), true));
    server.wait_for(&waiting[2], "raw.stderr", "ready");
    server.open_gate(&waiting[2], "on");
    assert_eq!(ended(&server, &waiting[2]), ("succeeded".into(), true));
    assert_eq!(ended(&server, &waiting[3]), ("succeeded".into(), false));
}

#[test]
fn runs_that_wait_for_an_equal_one_count_in_the_queues_limit() {
    let server = Server::with(&[("max_running_jobs", "1"), ("max_queued_jobs", "1")]);
    let (leader, waiting) = led(&server, 1);
    let refused = server.post("/v1/jobs", &json!({"skill_id": "gated"}));
    assert_eq!(refused.refusal(), (429, "QUEUE_FULL".into()));
    server.open_gate(&leader, "on");
    assert_eq!(ended(&server, &waiting[0]), ("succeeded".into(), false));
    taken(&server, &json!({"skill_id": "gated"}));
}

#[test]
fn a_restart_leaves_no_run_that_waits_for_ever() {
    let flags = [("restart_queued", "requeue"), ("max_running_jobs", "1")];
    let server = Server::with(&flags);
    let (leader, waiting) = led(&server, 3);
    let server = server.restarted(&flags);
    assert_eq!(ended(&server, &leader).0, "failed");
    server.wait_for(&waiting[0], "raw.stderr", "ready");
    server.open_gate(&waiting[0], "on");
    assert_eq!(ended(&server, &waiting[0]), ("succeeded".into(), true));
    for run in &waiting[1..] {
        assert_eq!(ended(&server, run), ("succeeded".into(), false));
    }
}

#[test]
fn a_result_that_was_there_before_the_restart_is_taken_after_it() {
    let flags = [("restart_queued", "requeue"), ("max_running_jobs", "1")];
    let server = Server::with(&flags);
    server.skill("hello", HELLO, json!({}));
    made(&server, &json!({"skill_id": "hello"}));
    let server = server.restarted(&flags);
    taken(&server, &json!({"skill_id": "hello"}));
}

#[test]
fn a_queued_run_takes_at_the_next_start_what_is_there_for_it() {
    let flags = [("restart_queued", "requeue"), ("max_running_jobs", "1")];
    let server = Server::with(&flags);
    server.skill("hello", HELLO, json!({}));
    let source = made(&server, &json!({"skill_id": "hello"}));
    led(&server, 0);
    // As after a crash between the end of one run and the waking of those that wait for it.
    let (result, away) = (server.run_dir(&source).join("result/result.json"), server.run_dir(&source).join("away"));
    std::fs::rename(&result, &away).unwrap();
    let waiting: Vec<String> = (0..3).map(|_| run_of(&create(&server, &json!({"skill_id": "hello"})))).collect();
    assert_eq!(job(&server, &waiting[0])["queue_position"], 0);
    std::fs::rename(&away, &result).unwrap();
    let server = server.restarted(&flags);
    for run in &waiting {
        assert_eq!(ended(&server, run), ("succeeded".into(), false));
    }
}

#[test]
fn a_source_that_is_damaged_in_any_way_is_a_miss() {
    let server = Server::start();
    server.skill("maker", MAKER, json!({}));
    let body = json!({"skill_id": "maker"});
    let mut source = made(&server, &body);
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 9] = [
        ("an artifact is gone", |run| std::fs::remove_file(run.join("artifacts/b.txt")).unwrap()),
        ("an artifact has changed", |run| std::fs::write(run.join("artifacts/b.txt"), "TWO\n").unwrap()),
        ("an artifact is a link", |run| {
            std::fs::remove_file(run.join("artifacts/b.txt")).unwrap();
            std::os::unix::fs::symlink("deep/a.txt", run.join("artifacts/b.txt")).unwrap();
        }),
        ("an artifact was added", |run| std::fs::write(run.join("artifacts/c.txt"), "c").unwrap()),
        ("the result is gone", |run| std::fs::remove_file(run.join("result/result.json")).unwrap()),
        ("the result has changed", |run| {
            let text = std::fs::read_to_string(run.join("result/result.json")).unwrap();
            std::fs::write(run.join("result/result.json"), text.replace("1.0", "2.0")).unwrap();
        }),
        ("the manifest has changed", |run| std::fs::write(run.join("manifest.json"), "{}").unwrap()),
        ("the validation has changed", |run| std::fs::write(run.join("result/validation.json"), "{}").unwrap()),
        ("all of it is gone", |run| std::fs::remove_dir_all(run.join("artifacts")).unwrap()),
    ];
    for (name, damage) in damages {
        damage(&server.run_dir(&source));
        let next = made(&server, &body);
        let files = std::fs::read_to_string(server.run_dir(&next).join("artifacts/b.txt")).unwrap();
        assert_eq!(files, "two\n", "{name}");
        source = next;
    }
    taken(&server, &body);
}

#[test]
fn entries_go_with_their_run_and_links_outlive_it() {
    let server = Server::start();
    server.skill("maker", MAKER, json!({}));
    let body = json!({"skill_id": "maker"});
    made(&server, &body);
    let hit = taken(&server, &body);
    let cleaned = server.post("/v1/jobs/cleanup", &json!({"keep_last": 1})).json();
    assert_eq!((&cleaned["runs_deleted"], &cleaned["cache_entries_deleted"]), (&json!(1), &json!(1)), "{cleaned}");
    assert_eq!(server.get(&format!("/v1/jobs/{hit}/artifacts/artifacts/deep/a.txt")).text(), "one\n");
    assert_eq!(server.get(&format!("/v1/jobs/{hit}/bundle")).status, 200);
    crate::support::check::whole_log(&server, &hit);
    made(&server, &body);
    let cleaned = server.post("/v1/jobs/cleanup", &json!({})).json();
    assert_eq!((&cleaned["runs_deleted"], &cleaned["cache_entries_deleted"]), (&json!(2), &json!(1)), "{cleaned}");
    made(&server, &body);
}

#[test]
fn the_first_answer_to_an_idempotency_key_tells_of_the_hit() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let body = json!({"skill_id": "hello"});
    made(&server, &body);
    let ask = || server.call("POST", "/v1/jobs").header("idempotency-key", "k").json(&body).send().json();
    let first = ask();
    assert_eq!((&first["cache_hit"], ask()), (&json!(true), first.clone()));
}

#[test]
fn explain_tells_which_part_of_the_key_differs_from_the_nearest_earlier_run() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let explained = |run: &str| server.get(&format!("/v1/jobs/{run}/explain/cache")).json();
    let parts = |story: &Value| {
        let parts = story["differing_parts"].as_array().unwrap();
        parts.iter().map(|part| part["part"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = made(&server, &json!({"skill_id": "hello", "parameter": {"a": 1}}));
    let story = explained(&first);
    assert_eq!((&story["outcome"], &story["nearest_run"]), (&json!("miss"), &Value::Null), "{story}");
    let second =
        made(&server, &json!({"skill_id": "hello", "parameter": {"a": 1}, "runtime_options": {"debug": true}}));
    assert_eq!(
        (&explained(&second)["nearest_run"], parts(&explained(&second))),
        (&json!(first), vec!["options".into()])
    );
    let third = made(&server, &json!({"skill_id": "hello", "parameter": {"a": 2}}));
    let story = explained(&third);
    assert_eq!((&story["nearest_run"], parts(&story)), (&json!(first), vec!["parameter".into()]), "{story}");
    assert_eq!(story["key"].as_str().unwrap().len(), 64);
    let hit = taken(&server, &json!({"skill_id": "hello", "parameter": {"a": 1}}));
    let story = explained(&hit);
    assert_eq!((&story["outcome"], &story["nearest_run"]), (&json!("hit"), &json!(first)), "{story}");
    let alone = made(&server, &json!({"skill_id": "hello", "runtime_options": {"no_cache": true}}));
    assert_eq!(explained(&alone)["outcome"], "not_cacheable");
    server.skill("hello", &format!("{HELLO}# edited\n"), json!({}));
    let edited = made(&server, &json!({"skill_id": "hello", "parameter": {"a": 1}}));
    assert_eq!(parts(&explained(&edited)), ["skill_content"]);
}

#[test]
fn a_hit_passes_the_audit_on_its_own() {
    let place = Place::new();
    let run = || {
        let shown = place.run(&["run", "tiny", "--json"]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        place.run(&["audit", &newest(&place)])
    };
    for _ in 0..2 {
        let audit = run();
        assert_eq!(audit.code, Some(0), "{audit:?}");
    }
    let told = place.run(&["explain", &newest(&place), "--cache"]);
    assert!(told.code == Some(0) && told.stdout.starts_with("hit: an equal run had succeeded"), "{told:?}");
    let history = place.run(&["history", &newest(&place)]);
    assert!(history.stdout.contains("run.cache_hit"), "{history:?}");
}

/// The newest run of a place.
fn newest(place: &Place) -> String {
    let runs = std::fs::read_dir(place.path().join("data/runs")).unwrap();
    runs.map(|entry| entry.unwrap().file_name().into_string().unwrap()).max().unwrap()
}

#[test]
fn a_hit_has_no_folder_until_one_is_needed_and_all_of_it_outlives_its_source() {
    let server = Server::start();
    server.skill("maker", MAKER, json!({}));
    let body = json!({"skill_id": "maker"});
    let source = made(&server, &body);
    let hits: Vec<String> = (0..3).map(|_| taken(&server, &body)).collect();
    let seen = |server: &Server, hit: &str| {
        let result = server.get(&format!("/v1/jobs/{hit}/result")).json()["result"].take();
        let history = server.get(&format!("/v1/jobs/{hit}/events/history")).json()["events"].take();
        (result, history)
    };
    let before: Vec<_> = hits.iter().map(|hit| seen(&server, hit)).collect();
    let data = server.folder.path().join("data");
    let names = |folder: &str| {
        let entries = std::fs::read_dir(data.join(folder)).into_iter().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names("runs"), [source.as_str()], "neither a result nor a history needs a folder");
    assert_eq!(names("results"), [source.as_str()]);

    let server = server.restarted(&[]);
    let cleaned = server.post("/v1/jobs/cleanup", &json!({"keep_last": 3})).json();
    assert_eq!(cleaned["runs_deleted"], 1, "{cleaned}");
    assert_eq!((names("runs").len(), names("sealed").len()), (0, 3), "the logs are sealed, and the source is gone");
    for (hit, before) in hits.iter().zip(&before) {
        assert_eq!(seen(&server, hit), *before);
        assert_eq!(server.get(&format!("/v1/jobs/{hit}/artifacts/artifacts/deep/a.txt")).text(), "one\n");
        for route in ["bundle", "export", "explain?path=/data/x", "logs", "artifacts"] {
            assert_eq!(server.get(&format!("/v1/jobs/{hit}/{route}")).status, 200, "{route}");
        }
        assert_eq!(seen(&server, hit), *before, "with a folder as without");
        crate::support::check::whole_log(&server, hit);
    }
    let server = server.restarted(&[]);
    for (hit, before) in hits.iter().zip(&before) {
        assert_eq!(seen(&server, hit), *before);
    }
    made(&server, &body);
    let cleaned = server.post("/v1/jobs/cleanup", &json!({})).json();
    assert_eq!(cleaned["runs_deleted"], 4, "{cleaned}");
    for folder in ["runs", "results", "sealed", "skill-copies"] {
        assert_eq!(names(folder), Vec::<String>::new(), "{folder}");
    }
}

#[test]
fn equal_runs_at_the_same_time_all_take_the_result_that_is_there() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let body = json!({"skill_id": "hello"});
    made(&server, &body);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let created = create(&server, &body);
                    let told = (&created["cache_hit"], &created["status"]);
                    assert_eq!(told, (&json!(true), &json!("succeeded")), "nobody waits for another: {created}");
                }
            });
        }
    });
}
