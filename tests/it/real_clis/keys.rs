//! Keys and transcripts: what a CLI's commands see, what is kept of a key that is printed, and what stays of a run.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use serde_json::json;

use super::service::{Service, of_type, writes_notes};
use super::{KEY, on_every_cli};
use crate::secrets::data_folder::open_to_others;
use crate::support::model_server::Reply;
use crate::support::{Call, LONG};

on_every_cli!(
    a_key_is_kept_from_commands_masked_where_it_is_printed_and_a_clean_up_removes_the_transcripts,
    a_killed_service_leaves_no_key_behind_and_a_session_goes_on_after_it,
);

/// The files below a folder that hold the key; links are not followed.
fn files_with_the_key(folder: &Path) -> Vec<PathBuf> {
    files_below(folder).into_iter().filter(|file| holds_the_key(&fs::read(file).unwrap_or_default())).collect()
}

fn holds_the_key(bytes: &[u8]) -> bool {
    bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found
}

fn a_key_is_kept_from_commands_masked_where_it_is_printed_and_a_clean_up_removes_the_transcripts(name: &str) {
    let mut service = Service::with(name);
    let data = service.folder.path().join("data");
    let Reply::Shell(notes) = writes_notes() else { panic!("notes are written by a command") };
    let look = Reply::Shell(format!("{notes}; env > seen.txt"));
    let print = Reply::Shell(format!("echo 'the key is {KEY}, it is'"));
    let result = |key: &str| json!({"title": format!("Plums {key}"), "points": 1, "artifact": "artifacts/notes.md"});
    let run = service.start_notes(&[look, print, Reply::Result(result(KEY))]);
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");

    let seen = fs::read(service.run_dir(&run).join("seen.txt")).unwrap();
    assert!(!seen.is_empty() && !holds_the_key(&seen), "{}", String::from_utf8_lossy(&seen));

    let masked = "*".repeat(KEY.len());
    assert_eq!(service.get(&format!("/v1/jobs/{run}/result"))["result"]["data"], result(&masked));
    let told = events.iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains(&format!("the key is {masked}, it is")) && !told.contains(KEY), "{events:#?}");
    assert_eq!(of_type(&events, "session.bound").count(), 1);
    let bundle = Call::new(service.address, "GET", &format!("/v1/jobs/{run}/bundle")).send();
    assert_eq!(bundle.status, 200);
    let mut bundle = zip::ZipArchive::new(std::io::Cursor::new(bundle.body)).unwrap();
    for index in 0..bundle.len() {
        let mut bytes = Vec::new();
        bundle.by_index(index).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(!holds_the_key(&bytes), "{:?}", bundle.by_index(index).unwrap().name());
    }
    for kept in ["runs", "store", "logs", "tmp", "requests", "sealed", "engines"] {
        assert_eq!(files_with_the_key(&data.join(kept)), Vec::<PathBuf>::new(), "{kept}");
    }

    for kept in ["runs", "store", "logs", "requests"] {
        let open: Vec<_> = if data.join(kept).exists() { open_to_others(&data.join(kept)) } else { Vec::new() };
        assert_eq!(open, [], "{kept} is for the service's user alone");
    }
    let home = data.join("homes").join(&run);
    for closed in [&data.join("homes"), &home] {
        // Codex opens a file of its own in it to everybody, who cannot reach it.
        assert_eq!(fs::metadata(closed).unwrap().permissions().mode() & 0o777, 0o700, "{}", closed.display());
    }
    assert_ne!(files_below(&home), Vec::<PathBuf>::new(), "the engine keeps its session there");
    let cleaned = Call::new(service.address, "POST", "/v1/jobs/cleanup").json(&json!({"keep_last": 0})).send();
    assert_eq!((cleaned.status, &cleaned.json()["runs_deleted"]), (200, &json!(1)), "{}", cleaned.text());
    assert!(!home.exists());
    assert_eq!(files_with_the_key(&data), Vec::<PathBuf>::new(), "neither its words nor its home's are left");
    service.runs.clear();
    service.close();
}

fn a_killed_service_leaves_no_key_behind_and_a_session_goes_on_after_it(name: &str) {
    let mut service = Service::with(name);
    let data = service.folder.path().join("data");
    let waits = "until [ -p gate ]; do sleep 0.1; done; echo begun > gate; sleep 600".to_owned();
    let killed = service.start_notes(&[Reply::Shell(waits), Reply::Say("never")]);
    let gate = service.run_dir(&killed).join("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let (begun, heard) = mpsc::channel();
    // Opening waits for the command to open its end.
    std::thread::spawn(move || begun.send(fs::read_to_string(gate)));
    assert_eq!(heard.recv_timeout(3 * LONG).expect("the command begins in time").unwrap(), "begun\n");
    service.kill();
    assert_eq!(files_with_the_key(&data), Vec::<PathBuf>::new());

    service.start_again();
    service.finish(&killed);
    let body = json!({"skill_id": "demo-interview", "runtime_options": {"execution_mode": "interactive"}});
    let result = json!({"name": "Ada", "colour": "plum", "__SKILL_DONE__": true});
    let run = service.start(&[Reply::Say("What is your name?")], body);
    let mut events = service.events(&run);
    let asked = std::iter::from_fn(|| events.next_chat()).find(|event| event["type"] == "user.input.required");
    let question = asked.unwrap_or_else(|| panic!("{:#}", service.get(&format!("/v1/jobs/{run}"))));
    drop(events);
    service.kill();
    service.start_again();
    service.model.script(&[Reply::Result(result)]);
    let reply = json!({"interaction_id": question["data"]["interaction_id"], "response": "Ada, and plum."});
    let replied = Call::new(service.address, "POST", &format!("/v1/jobs/{run}/interaction/reply")).json(&reply).send();
    assert_eq!(replied.status, 200, "{}", replied.text());
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!((&job["status"], &job["attempt"]), (&json!("succeeded"), &json!(2)), "{job:#}\n{events:#?}");
    let carried = service.model.requests()[0].to_string();
    assert!(carried.contains("What is your name?") && carried.contains("Ada, and plum."), "{carried}");
    service.close();
}
