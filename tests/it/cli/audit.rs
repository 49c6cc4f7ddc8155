//! `audit`: a good run is ok, and each way of damaging one is told with its place.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::place::Place;

#[test]
fn a_good_run_is_ok_by_id_by_folder_and_by_its_log_alone() {
    let place = Place::new();
    let run = place.finished_run();
    let folder = place.run_folder(&run);
    let log = folder.join("logs/events.jsonl");
    let alone = place.path().join("alone.jsonl");
    fs::copy(&log, &alone).unwrap();
    let targets: [(&str, usize); 4] =
        [(&run, 7), (folder.to_str().unwrap(), 6), (log.to_str().unwrap(), 6), (alone.to_str().unwrap(), 3)];
    for (target, checks) in targets {
        let ran = place.run(&["audit", target, "--json"]);
        let report = ran.json();
        assert_eq!((ran.code, &report["ok"], &report["violations"]), (Some(0), &json!(true), &json!([])), "{ran:?}");
        assert_eq!((&report["run_id"], &report["events"]), (&json!(run), &json!(10)));
        assert_eq!(report["checked"].as_array().unwrap().len(), checks, "{report}");
        let told = place.run(&["audit", target]);
        assert_eq!((told.code, told.stdout.lines().last()), (Some(0), Some("ok")), "{told:?}");
    }
}

#[test]
fn a_failed_and_a_canceled_run_are_ok_too() {
    let place = Place::new();
    place.skill("broken", "echo oops >&2\nexit 1\n");
    place.skill("slow", "echo begun >&2\nsleep 600\n");
    assert_eq!(place.run(&["run", "broken"]).code, Some(1));
    let (running, _) = place.start(&["run", "slow"], "raw.stderr begun");
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.end().code, Some(130));
    let mut found: Vec<_> = fs::read_dir(place.path().join("data/runs"))
        .unwrap()
        .map(|run| place.run(&["audit", run.unwrap().file_name().to_str().unwrap(), "--json"]))
        .map(|ran| (ran.code, ran.json()["status"].as_str().unwrap().to_owned()))
        .collect();
    found.sort();
    assert_eq!(found, [(Some(0), "canceled".to_owned()), (Some(0), "failed".to_owned())]);
}

/// The violations in a copy of a run that was damaged, as rule, file and event.
fn damaged(place: &Place, run: &str, damage: impl FnOnce(&Path)) -> Vec<(String, String, Value)> {
    let copy = tempfile::tempdir().unwrap();
    let root = copy.path().join("run");
    copy_tree(&place.run_folder(run), &root);
    damage(&root);
    let ran = place.run(&["audit", root.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let told = place.run(&["audit", root.to_str().unwrap()]);
    assert_eq!(told.code, Some(1), "{told:?}");
    let report = ran.json();
    let found = report["violations"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    for violation in found {
        assert!(told.stdout.contains(&text(&violation["message"])), "{told:?}");
    }
    found.iter().map(|found| (text(&found["rule"]), text(&found["file"]), found["seq"].clone())).collect()
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn replace(path: PathBuf, old: &str, new: &str) {
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(old), "{old:?} is not in {}", path.display());
    fs::write(path, text.replacen(old, new, 1)).unwrap();
}

fn violation(rule: &str, file: &str, seq: impl Into<Value>) -> (String, String, Value) {
    (rule.to_owned(), file.to_owned(), seq.into())
}

const EVENTS: &str = "logs/events.jsonl";

/// The place of the first event of this type.
fn seq_of(place: &Place, run: &str, type_name: &str) -> u64 {
    let log = fs::read_to_string(place.run_folder(run).join(EVENTS)).unwrap();
    let wanted = format!("\"type\":\"{type_name}\"");
    log.lines().position(|line| line.contains(&wanted)).unwrap() as u64 + 1
}

#[test]
fn a_changed_event_breaks_the_chain_and_is_found_by_its_bytes() {
    let place = Place::new();
    let run = place.finished_run();
    let raw = seq_of(&place, &run, "raw.stderr");
    let found = damaged(&place, &run, |root| replace(root.join(EVENTS), "a log line", "a log lime"));
    assert_eq!(found, [violation("PROOF", EVENTS, 10), violation("RAW", EVENTS, raw)]);
    let found = damaged(&place, &run, |root| replace(root.join(EVENTS), "computing", "commuting"));
    assert_eq!(found, [violation("PROOF", EVENTS, 10)]);
}

#[test]
fn an_event_that_is_no_json_any_more_is_named() {
    let place = Place::new();
    let run = place.finished_run();
    let progress = seq_of(&place, &run, "run.progress");
    let found = damaged(&place, &run, |root| replace(root.join(EVENTS), "\"percent\":", "\"percent\";"));
    assert_eq!(found[0], violation("SCHEMA", EVENTS, progress), "{found:?}");
}

#[test]
fn a_cut_log_has_no_terminal_event() {
    let place = Place::new();
    let run = place.finished_run();
    let found = damaged(&place, &run, |root| {
        let log = fs::read_to_string(root.join(EVENTS)).unwrap();
        let kept: String = log.lines().take(9).map(|line| format!("{line}\n")).collect();
        fs::write(root.join(EVENTS), kept).unwrap();
    });
    assert!(found.contains(&violation("OR-01", EVENTS, Value::Null)), "{found:?}");
    let found = damaged(&place, &run, |root| {
        let log = fs::read(root.join(EVENTS)).unwrap();
        fs::write(root.join(EVENTS), &log[..log.len() - 1]).unwrap();
    });
    assert_eq!(found, [violation("FCMP", EVENTS, 10)]);
}

#[test]
fn a_changed_a_missing_and_a_longer_stream_are_named() {
    let place = Place::new();
    let run = place.finished_run();
    let raw = seq_of(&place, &run, "raw.stdout");
    let stdout = "logs/stdout.txt";
    let found = damaged(&place, &run, |root| replace(root.join(stdout), "hi", "ho"));
    assert_eq!(found, [violation("PROOF", stdout, Value::Null), violation("RAW", EVENTS, raw)]);
    let found = damaged(&place, &run, |root| fs::remove_file(root.join(stdout)).unwrap());
    assert_eq!(found, [violation("PROOF", stdout, Value::Null)]);
    let found = damaged(&place, &run, |root| {
        let longer = [fs::read(root.join(stdout)).unwrap(), b"more".to_vec()].concat();
        fs::write(root.join(stdout), longer).unwrap();
    });
    assert_eq!(found, [violation("OR-06", EVENTS, Value::Null), violation("PROOF", stdout, Value::Null)]);
}

#[test]
fn a_changed_a_missing_and_an_added_artifact_are_named() {
    let place = Place::new();
    let run = place.finished_run();
    let note = "artifacts/note.txt";
    let found = damaged(&place, &run, |root| replace(root.join(note), "hello", "hullo"));
    assert_eq!(found, [violation("ARTIFACT", note, Value::Null)]);
    let found = damaged(&place, &run, |root| fs::remove_file(root.join(note)).unwrap());
    assert_eq!(found, [violation("ARTIFACT", note, Value::Null)]);
    let found = damaged(&place, &run, |root| fs::write(root.join("artifacts/more"), "x").unwrap());
    assert_eq!(found, [violation("ARTIFACT", "artifacts/more", Value::Null)]);
}

#[test]
fn a_changed_manifest_and_a_changed_result_are_named() {
    let place = Place::new();
    let run = place.finished_run();
    let manifest = "manifest.json";
    let found = damaged(&place, &run, |root| replace(root.join(manifest), "note.txt", "vote.txt"));
    assert_eq!(found[0], violation("PROOF", manifest, Value::Null), "{found:?}");
    let found = damaged(&place, &run, |root| replace(root.join(manifest), "{\n", "{ \n"));
    assert_eq!(found, [violation("PROOF", manifest, Value::Null)]);
    let found = damaged(&place, &run, |root| replace(root.join(manifest), "{", "["));
    assert_eq!(found, [violation("PROOF", manifest, Value::Null)]);
    let result = "result/result.json";
    let found = damaged(&place, &run, |root| replace(root.join(result), "succeeded", "failed"));
    assert_eq!(found, [violation("RESULT", result, Value::Null)]);
}

#[test]
fn a_change_that_only_the_stored_row_knows_of_is_found_by_id() {
    let place = Place::new();
    let run = place.finished_run();
    // The proof stands in the last event and so cannot cover it; the row does.
    replace(place.run_folder(&run).join(EVENTS), r#""completion":"exit""#, r#""completion":"schema""#);
    let ran = place.run(&["audit", &run, "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report = ran.json();
    assert_eq!((&report["violations"][0]["rule"], &report["violations"][0]["file"]), (&json!("ROW"), &json!("store")));
}

#[test]
fn a_target_that_is_nothing_is_said_so() {
    let place = Place::new();
    let ran = place.run(&["audit", "nothing"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stderr, "error: \"nothing\" is neither a run's id nor an existing folder, export or event log\n");
    let ran = place.run(&["audit", "skills"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("is not the folder of a finished run"), "{ran:?}");
}
