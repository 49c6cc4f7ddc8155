//! A stored file that is not what it was is never served as if it were whole, and what is damaged is told.

mod repeated_page;
mod slow_readers;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use skill_runner::domain::ids::RunId;
use skill_runner::store::{Append, EventStore, IndexChange, IndexKey, SledStore};

use crate::cli::place::Place;
use crate::support::{LONG, Server, Sse};

/// Leaves an artifact, prints on both streams, and answers.
const TINY: &str = "cat >/dev/null\necho '10% begun' >&2\nprintf hello > artifacts/note.txt\n\
    echo '{\"success\":true,\"action\":\"run\",\"data\":{\"greeting\":\"hi\"}}'\n";
const EVENTS: &str = "logs/events.jsonl";

/// A server on which the events of finished runs leave the store at once.
fn server() -> Server {
    let server = Server::with(&[("seal_grace_seconds", "0"), ("scrub", "0")]);
    server.skill("tiny", TINY, json!({}));
    server
}

/// A finished run whose events are in its file alone.
fn sealed(server: &Server, skill: &str) -> String {
    let (_, run) = server.create_with(&json!({"skill_id": skill, "runtime_options": {"no_cache": true}}));
    let left = server.watch_leave(&run);
    server.finish(&run);
    left.wait(server);
    run
}

/// A file that is damaged for a while.
struct Damaged {
    path: PathBuf,
    whole: Vec<u8>,
}

impl Damaged {
    fn by(path: PathBuf, damage: impl FnOnce(&Path, &[u8])) -> Self {
        let whole = fs::read(&path).unwrap();
        damage(&path, &whole);
        Self { path, whole }
    }

    /// With one bit flipped in its middle.
    fn flipped(path: PathBuf) -> Self {
        Self::by(path, |path, whole| {
            let mut bytes = whole.to_vec();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        })
    }
}

impl Drop for Damaged {
    fn drop(&mut self) {
        fs::write(&self.path, &self.whole).unwrap();
    }
}

/// The files of a run that its job names as damaged.
fn told(server: &Server, run: &str) -> Vec<Value> {
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    job["integrity"]["damaged"].as_array().into_iter().flatten().map(|found| found["file"].clone()).collect()
}

#[track_caller]
fn refused(server: &Server, path: &str, file: &str) {
    let answer = server.get(path);
    assert_eq!(answer.refusal(), (500, "DATA_CORRUPT".into()), "{path}: {}", answer.text());
    assert_eq!(answer.json()["error"]["details"]["file"], json!(file), "{path}: {}", answer.text());
}

#[test]
fn a_sealed_log_that_is_deleted_emptied_cut_appended_to_or_changed_is_damage_everywhere() {
    let server = server();
    let run = sealed(&server, "tiny");
    let history =
        |kind: &str| server.call("GET", &format!("/v1/jobs/{run}/events/history")).header("accept", kind).send();
    let whole = history("application/x-ndjson").body;
    let path = server.run_dir(&run).join(EVENTS);
    type Damage = fn(&Path, &[u8]);
    let damages: [(&str, Damage); 6] = [
        ("deleted", |path, _| fs::remove_file(path).unwrap()),
        ("emptied", |path, _| fs::write(path, "").unwrap()),
        ("cut in an event", |path, whole| fs::write(path, &whole[..whole.len() / 2]).unwrap()),
        ("without its last event", |path, whole| {
            let end = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
            fs::write(path, &whole[..end]).unwrap();
        }),
        ("with one event more", |path, whole| fs::write(path, [whole, b"{}\n"].concat()).unwrap()),
        ("changed", |path, whole| {
            let mut bytes = whole.to_vec();
            bytes[whole.len() / 3] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
    ];
    for (how, damage) in damages {
        let damaged = Damaged::by(path.clone(), damage);
        for kind in ["application/json", "application/x-ndjson"] {
            let answer = history(kind);
            assert_eq!(answer.refusal(), (500, "DATA_CORRUPT".into()), "{how}: {}", answer.text());
            assert_eq!(answer.json()["error"]["details"]["file"], EVENTS, "{how}");
        }
        assert_eq!(Sse::open(server.address, &format!("/v1/jobs/{run}/events"), &[]).status, 500, "{how}");
        for path in ["export", "events/history?from_seq=2", &format!("../management/runs/{run}/file?path={EVENTS}")] {
            let path = match path.strip_prefix("../") {
                Some(path) => format!("/v1/{path}"),
                None => format!("/v1/jobs/{run}/{path}"),
            };
            refused(&server, &path, EVENTS);
        }
        assert_eq!(told(&server, &run), [EVENTS], "{how}");
        drop(damaged);
        assert_eq!(history("application/x-ndjson").body, whole, "{how}: it was put back");
        assert_eq!(told(&server, &run), Vec::<Value>::new(), "{how}: it was put back");
    }
}

/// Reading it to its end would take an hour. The proof in its last event is looked up for every file of the run.
#[test]
fn a_sealed_log_followed_by_a_terabyte_of_holes_is_damage_and_is_not_read() {
    let server = server();
    let run = sealed(&server, "tiny");
    let path = server.run_dir(&run).join(EVENTS);
    let long = Damaged::by(path.clone(), |path, _| {
        fs::File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
    });
    let job = format!("/v1/jobs/{run}");
    for path in ["result", "artifacts", "artifacts/artifacts/note.txt", "bundle", "export", "events/history"] {
        refused(&server, &format!("{job}/{path}"), EVENTS);
    }
    assert_eq!(told(&server, &run), [EVENTS]);
    drop(long);
    for path in ["result", "events/history"] {
        assert_eq!(server.get(&format!("{job}/{path}")).status, 200, "{path}: it was put back");
    }
    assert_eq!(told(&server, &run), Vec::<Value>::new());
}

#[test]
fn a_changed_file_is_never_served_as_if_it_were_whole() {
    let server = server();
    let run = sealed(&server, "tiny");
    let (job, shown) = (format!("/v1/jobs/{run}"), format!("/v1/management/runs/{run}/file?path="));
    let cases: [(&str, &[String]); 8] = [
        (
            "artifacts/note.txt",
            &[format!("{job}/artifacts/artifacts/note.txt"), format!("{job}/bundle"), format!("{job}/export")],
        ),
        ("result/result.json", &[format!("{job}/result"), format!("{job}/bundle"), format!("{job}/export")]),
        ("result/validation.json", &[format!("{shown}result/validation.json"), format!("{job}/export")]),
        (
            "logs/stdout.txt",
            &[format!("{job}/logs"), format!("{job}/logs/range?stream=stdout"), format!("{job}/export")],
        ),
        ("raw/engine_output.txt", &[format!("{shown}raw/engine_output.txt"), format!("{job}/export")]),
        ("input.json", &[format!("{shown}input.json"), format!("{job}/export")]),
        ("skill.json", &[format!("{shown}skill.json"), format!("{job}/export")]),
        ("manifest.json", &[format!("{job}/artifacts"), format!("{job}/bundle"), format!("{job}/export")]),
    ];
    let whole: Vec<_> = cases.iter().flat_map(|(_, paths)| *paths).map(|path| (path, server.get(path).body)).collect();
    for (file, paths) in cases {
        let damaged = Damaged::flipped(server.run_dir(&run).join(file));
        // A bundle that is there already was made of whole files.
        let _ = fs::remove_dir_all(server.run_dir(&run).join("bundle"));
        for path in paths {
            refused(&server, path, file);
        }
        assert_eq!(told(&server, &run), [file]);
        drop(damaged);
        let missing = Damaged::by(server.run_dir(&run).join(file), |path, _| fs::remove_file(path).unwrap());
        for path in paths {
            refused(&server, path, file);
        }
        drop(missing);
        // Whoever reads it again finds it whole.
        paths.iter().for_each(|path| assert_eq!(server.get(path).status, 200, "{path}"));
    }
    // A bundle that somebody changed is made anew.
    server.get(&format!("{job}/bundle"));
    let _bundle = Damaged::flipped(server.run_dir(&run).join("bundle/run_bundle.zip"));
    for (path, before) in whole {
        assert_eq!(server.get(path).body, before, "{path}: all was put back");
    }
    assert_eq!(told(&server, &run), Vec::<Value>::new());
}

/// Leaves an artifact that is longer than what sockets hold.
const LARGE: &str =
    "cat >/dev/null\ntruncate -s 24M artifacts/large.bin\necho '{\"success\":true,\"action\":\"run\",\"data\":{}}'\n";

#[test]
fn a_long_file_that_is_changed_before_or_while_it_is_sent_is_not_sent_to_its_end() {
    let server = server();
    server.skill("large", LARGE, json!({}));
    let run = sealed(&server, "large");
    let path = format!("/v1/jobs/{run}/artifacts/artifacts/large.bin");
    assert_eq!(server.get(&path).body.len(), 24 << 20);
    let file = fs::File::options().write(true).open(server.run_dir(&run).join("artifacts/large.bin")).unwrap();
    let put = |byte: u8| file.write_all_at(&[byte], (24 << 20) - 1).unwrap();
    put(1);
    refused(&server, &path, "artifacts/large.bin");
    put(0);
    assert_eq!(server.call("GET", &path).header("range", "bytes=0-9").send().body, [0; 10]);

    let mut connection = TcpStream::connect(server.address).unwrap();
    connection.set_read_timeout(Some(LONG)).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address).unwrap();
    let mut first = [0; 16];
    connection.read_exact(&mut first).unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200"), "{first:?}");
    put(1);
    let mut rest = Vec::new();
    // An end or a reset: either way less than was promised.
    let _ = connection.read_to_end(&mut rest);
    assert!(rest.len() < 24 << 20, "all {} bytes came", rest.len());
    assert_eq!(told(&server, &run), ["artifacts/large.bin"]);
    put(0);
}

#[test]
fn a_run_whose_folder_is_gone_says_so() {
    let server = server();
    let run = sealed(&server, "tiny");
    let (folder, aside) = (server.run_dir(&run), server.data().join("aside"));
    fs::rename(&folder, &aside).unwrap();
    for path in [
        "/result",
        "/artifacts",
        "/artifacts/artifacts/note.txt",
        "/bundle",
        "/export",
        "/logs",
        "/events/history",
        "/events",
        "/logs/range?stream=stdout",
    ] {
        let answer = server.get(&format!("/v1/jobs/{run}{path}"));
        assert_eq!(answer.refusal(), (410, "RUN_FILES_GONE".into()), "{path}: {}", answer.text());
    }
    assert_eq!(server.get(&format!("/v1/management/runs/{run}/files")).refusal(), (410, "RUN_FILES_GONE".into()));
    assert_eq!(told(&server, &run), [format!("runs/{run}")]);
    fs::rename(&aside, &folder).unwrap();
    assert_eq!(server.get(&format!("/v1/jobs/{run}/result")).status, 200);
}

/// Asks again and again, until this is so.
fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "{what} took too long");
        std::thread::yield_now();
    }
}

#[test]
fn the_check_in_the_background_finds_what_nobody_reads() {
    let server = Server::with(&[("seal_grace_seconds", "0"), ("scrub", "100000000"), ("scrub_pause_seconds", "0")]);
    server.skill("tiny", TINY, json!({}));
    let run = sealed(&server, "tiny");
    let integrity = || server.get("/v1/system").json()["integrity"].clone();
    until("a first pass", || integrity()["scrub"]["passes"].as_u64() > Some(0));
    assert_eq!(integrity()["damaged"], 0);
    for file in ["raw/engine_output.txt", EVENTS, "artifacts/note.txt"] {
        let damaged = Damaged::flipped(server.run_dir(&run).join(file));
        until("a finding", || integrity()["damaged"] == 1);
        assert_eq!((integrity()["damaged_runs"].clone(), told(&server, &run)), (json!([run]), vec![json!(file)]));
        drop(damaged);
        until("the end of the finding", || integrity()["damaged"] == 0);
    }
}

#[test]
fn damage_is_an_error_in_the_log_of_the_service_and_told_once() {
    let place = Place::new();
    let run = place.finished_run();
    let (service, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let _damaged = Damaged::flipped(place.run_folder(&run).join("result/result.json"));
    for _ in 0..2 {
        let answer = crate::support::Call::new(address, "GET", &format!("/v1/jobs/{run}/result")).send();
        assert_eq!(answer.refusal(), (500, "DATA_CORRUPT".into()), "{}", answer.text());
    }
    service.signal(rustix::process::Signal::TERM);
    assert_eq!(service.end().code, Some(0));
    let log = fs::read_to_string(place.path().join("data/logs/skill-runner.log")).unwrap();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("a stored file is damaged")).collect();
    assert_eq!(told.len(), 1, "{told:#?}");
    for part in ["ERROR", &run, "result/result.json"] {
        assert!(told[0].contains(part), "{part} is not in {}", told[0]);
    }
}

#[test]
fn a_finding_about_a_run_that_is_not_there_goes_with_the_next_check() {
    let server = Server::start();
    let gone = "01890000-0000-7000-8000-000000000000";
    let finding =
        json!({gone: [{"file": "input.json", "message": "it has changed", "found_at": "2026-01-01T00:00:00Z"}]});
    fs::write(server.data().join("damage.json"), finding.to_string()).unwrap();
    let server = server.restarted(&[("scrub", "100000000"), ("scrub_pause_seconds", "1")]);
    let damaged = || server.get("/v1/system").json()["integrity"]["damaged"].clone();
    until("the end of the finding", || damaged() == 0);
}

#[test]
fn verify_walks_the_whole_data_folder_beside_a_service_and_without_one_and_believes_nobody_that_it_did() {
    let place = Place::new();
    place.skill("other", super::cli::place::TINY);
    let runs = [place.finished_run(), place.finished_run()];
    assert_eq!(place.run(&["run", "other"]).code, Some(0));
    let whole = place.run(&["verify", "--json"]);
    assert_eq!(
        (whole.code, &whole.json()["runs"], &whole.json()["damaged"]),
        (Some(0), &json!(3), &json!([])),
        "{whole:?}"
    );
    assert!(place.run(&["verify"]).stdout.ends_with("3 runs checked: ok\n"));

    let damaged = Damaged::flipped(place.run_folder(&runs[0]).join("raw/engine_output.txt"));
    let found = |ran: &super::cli::place::Ran| {
        let found = ran.json()["damaged"].as_array().unwrap().clone();
        found.iter().map(|it| (it["run_id"].clone(), it["file"].clone())).collect::<Vec<_>>()
    };
    let expected = [(json!(runs[0]), json!("raw/engine_output.txt"))];
    let offline = place.run(&["verify", "--json"]);
    assert_eq!((offline.code, found(&offline)), (Some(1), expected.to_vec()), "{offline:?}");
    {
        let (_service, line) = place.start(&["serve", "--port", "0"], "listening on ");
        let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
        let job = crate::support::Call::new(address, "GET", &format!("/v1/jobs/{}", runs[0])).send().json();
        assert_eq!(
            job["integrity"]["damaged"][0]["file"], "raw/engine_output.txt",
            "what was found before is known: {job}"
        );
        let beside = place.run(&["verify", "--json"]);
        assert_eq!((beside.code, found(&beside)), (Some(1), expected.to_vec()), "{beside:?}");
    }

    // What anybody writes there says nothing: every run is checked.
    for signature in [None, Some("0".repeat(128))] {
        let mut made_up = json!({"last": runs[0], "runs": 1000, "bytes": 0, "damaged": []});
        if let Some(signature) = signature {
            made_up = json!({"progress": made_up, "signature": signature});
        }
        fs::write(place.path().join("data/verify.json"), made_up.to_string()).unwrap();
        let resumed = place.run(&["verify", "--resume", "--json"]);
        assert_eq!((resumed.code, &resumed.json()["runs"], found(&resumed)), (Some(1), &json!(3), expected.to_vec()));
        assert_eq!(resumed.json()["runs_by_earlier_command"], 0);
        assert!(resumed.stderr.contains("verify.json is not signed with the key"), "{resumed:?}");
    }
    assert_eq!(place.run(&["verify", "--resume"]).code, Some(4), "there is nothing to be resumed");
    drop(damaged);
    assert_eq!(place.run(&["verify", "--rate", "100000000"]).code, Some(0));
}

#[test]
fn verify_reads_no_faster_than_it_may_tells_how_far_it_is_and_goes_on_after_a_kill() {
    let place = Place::new();
    for _ in 0..3 {
        place.finished_run();
    }
    let bytes = place.run(&["verify", "--json"]).json()["bytes"].as_u64().unwrap();
    let began = Instant::now();
    assert_eq!(place.run(&["verify", "--rate", &bytes.to_string()]).code, Some(0));
    assert!(began.elapsed().as_secs_f64() >= 0.99, "all of it in {:?}", began.elapsed());

    // Three seconds for each run, so that it is killed in the middle.
    let kept = place.path().join("data/verify.json");
    let mut command = place.command(&["verify", "--rate", &(bytes / 9).max(1).to_string()]);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = told.next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains(" runs checked, ") && line.ends_with(" 0 damaged files"), "{line}");
    let signed = fs::read_to_string(&kept).unwrap();
    let progress = serde_json::from_str::<Value>(&signed).unwrap()["progress"].clone();
    let earlier = progress["runs"].as_u64().unwrap();
    assert!((1..=3).contains(&earlier), "{progress}");
    let resumed = place.run(&["verify", "--resume", "--json"]);
    assert_eq!((resumed.code, &resumed.json()["runs"], &resumed.json()["bytes"]), (Some(0), &json!(3), &json!(bytes)));
    assert_eq!(resumed.json()["runs_by_earlier_command"], earlier);
    assert!(!kept.exists());

    // The same, told to people; and with another number under the signature.
    fs::write(&kept, &signed).unwrap();
    let told = place.run(&["verify", "--resume"]);
    let expected = format!("3 runs checked, of them {earlier} by an earlier command: ok\n");
    assert_eq!((told.code, told.stdout, told.stderr), (Some(0), expected, String::new()));
    fs::write(&kept, signed.replace("\"runs\":", "\"runs\":100")).unwrap();
    let told = place.run(&["verify", "--resume"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "3 runs checked: ok\n"), "{}", told.stderr);
    assert!(told.stderr.contains("beginning anew"), "{}", told.stderr);
}

#[test]
fn a_row_that_differs_from_its_events_is_found_by_audit_and_verify_and_told_in_the_job() {
    let place = Place::new();
    let run = place.finished_run();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // The version of the skill, as the row alone has it.
    let change_row = |from: &str, to: &str| {
        let id = RunId(run.parse().unwrap());
        let store = SledStore::open(&place.path().join("data"), |error| panic!("{error}")).unwrap();
        runtime.block_on(async {
            let row = store.index(&IndexKey::Run(id)).await.unwrap().unwrap();
            let text = String::from_utf8(row.to_vec()).unwrap();
            assert_eq!(text.matches(from).count(), 1, "{text}");
            let index = vec![IndexChange::Put(IndexKey::Run(id), text.replace(from, to).into())];
            let expected_head = store.head(&id).await.unwrap();
            store
                .append(Append {
                    run: id,
                    expected_head,
                    events: vec![],
                    index,
                    require_absent: None,
                    for_others: Default::default(),
                })
                .await
                .unwrap();
        });
    };
    change_row("1.2.3", "1.2.4");
    let audit = place.run(&["audit", &run]);
    assert_eq!(audit.code, Some(1), "{audit:?}");
    assert!(audit.stdout.contains("the row differs from the state of the events: skill"), "{audit:?}");
    let verify = place.run(&["verify", "--json"]);
    let damaged = verify.json()["damaged"].clone();
    assert_eq!(verify.code, Some(1), "{verify:?}");
    assert_eq!((&damaged[0]["run_id"], &damaged[0]["file"], &damaged[1]), (&json!(run), &json!("store"), &Value::Null));
    {
        let (_service, line) = place.start(&["serve", "--port", "0"], "listening on ");
        let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
        let job = crate::support::Call::new(address, "GET", &format!("/v1/jobs/{run}")).send().json();
        assert_eq!(job["integrity"]["damaged"][0]["file"], "store", "{job}");
    }
    change_row("1.2.4", "1.2.3");
    assert_eq!((place.run(&["audit", &run]).code, place.run(&["verify"]).code), (Some(0), Some(0)));
}
