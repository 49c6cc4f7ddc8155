//! `audit`: a good run is ok, and each way of damaging one is told with its place.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skill_runner::domain::cache_key::sha256_hex;

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
        [(&run, 8), (folder.to_str().unwrap(), 7), (log.to_str().unwrap(), 7), (alone.to_str().unwrap(), 3)];
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
    let running = place.start_run("slow", "raw.stderr begun");
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
fn a_log_at_the_last_number_there_is_and_one_without_end_are_audited() {
    let place = Place::new();
    let run = place.finished_run();
    let found =
        damaged(&place, &run, |root| replace(root.join(EVENTS), "\"seq\":2,", &format!("\"seq\":{},", u64::MAX)));
    assert_eq!(found[0], violation("OR-03", EVENTS, 2));
    // A terabyte that takes no space, and has no line in it.
    let found = damaged(&place, &run, |root| {
        fs::File::options().write(true).open(root.join(EVENTS)).unwrap().set_len(1 << 40).unwrap();
    });
    assert!(found.iter().any(|(rule, file, _)| (rule.as_str(), file.as_str()) == ("FCMP", EVENTS)), "{found:?}");
}

/// Its length alone tells that it is not what the log says.
#[test]
fn raw_output_of_a_terabyte_of_holes_is_damage_and_is_not_read() {
    let place = Place::new();
    let run = place.finished_run();
    let found = damaged(&place, &run, |root| {
        fs::File::options().write(true).open(root.join("logs/stdout.txt")).unwrap().set_len(1 << 40).unwrap();
    });
    assert!(found.contains(&violation("PROOF", "logs/stdout.txt", Value::Null)), "{found:?}");
}

/// Its end says that its directory is empty and at its beginning, so that everything else would be what stands behind it.
#[test]
fn an_export_that_lies_about_its_directory_takes_no_memory_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("run.zip");
    let comment = [b"skill-runner-export/1 sha256 ".as_slice(), &[b'0'; 64]].concat();
    let length = u16::try_from(comment.len()).unwrap().to_le_bytes();
    let end = [b"PK\x05\x06".as_slice(), &[0; 16], &length, &comment].concat();
    std::os::unix::fs::FileExt::write_all_at(&fs::File::create(&export).unwrap(), &end, 1200 << 20).unwrap();
    let limited = "ulimit -v 1000000; exec \"$0\" audit --json \"$1\"";
    let program = env!("CARGO_BIN_EXE_skill-runner");
    let told = std::process::Command::new("sh").args(["-c", limited, program]).arg(&export).output().unwrap();
    let report: Value = serde_json::from_slice(&told.stdout).expect("it is told about");
    assert!(report["violations"].as_array().unwrap().iter().any(|found| found["rule"] == "ZIP"), "{report}");
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
    assert_eq!(found, [violation("FILE", result, Value::Null), violation("RESULT", result, Value::Null)]);
    let found = damaged(&place, &run, |root| {
        replace(root.join(result), "hi", "ho");
        let changed = fs::read(root.join(result)).unwrap();
        let before = fs::read(place.run_folder(&run).join(result)).unwrap();
        replace(root.join(manifest), &sha256_hex(&before), &sha256_hex(&changed));
    });
    let lists = [violation("PROOF", manifest, Value::Null), violation("PROOF", manifest, Value::Null)];
    assert_eq!(found, [&lists[..], &[violation("PROOF", result, Value::Null)]].concat(), "the list was changed to fit");
}

#[test]
fn one_flipped_bit_in_any_file_that_a_run_is_judged_or_served_by_is_found_and_named() {
    let place = Place::new();
    let script = "cat > /dev/null\nprintf hello > artifacts/note.txt\nprintf more > result/more.txt\n\
                  echo '{\"success\":true,\"action\":\"run\",\"data\":{}}'\n";
    place.skill("reader", script);
    fs::write(place.path().join("some.txt"), "content of it").unwrap();
    let ran = place.run(&["run", "reader", "--file", "doc=some.txt", "--input", "name=x", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let run = ran.json()["run_id"].as_str().unwrap().to_owned();
    for file in [
        "input.json",
        "skill.json",
        "uploads/doc",
        "raw/engine_output.txt",
        "raw/engine_output.json",
        "result/result.json",
        "result/validation.json",
        "result/more.txt",
        "artifacts/note.txt",
        "manifest.json",
        "logs/stdout.txt",
        EVENTS,
    ] {
        let found = damaged(&place, &run, |root| {
            let mut bytes = fs::read(root.join(file)).unwrap();
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
            fs::write(root.join(file), bytes).unwrap();
        });
        assert!(found.iter().any(|(_, named, _)| named == file), "{file}: {found:?}");
    }
    for file in ["uploads/doc", "raw/engine_output.txt", "result/validation.json", "input.json"] {
        let found = damaged(&place, &run, |root| fs::remove_file(root.join(file)).unwrap());
        assert_eq!(found[0], violation("FILE", file, Value::Null), "{found:?}");
        let added = format!("{}/added", file.split('/').next().unwrap());
        if file.contains('/') {
            let found = damaged(&place, &run, |root| fs::write(root.join(&added), "x").unwrap());
            assert_eq!(found, [violation("FILE", &added, Value::Null)]);
        }
    }
}

#[test]
fn a_forged_export_is_found_by_the_key_and_without_it_only_who_signed_is_told() {
    let place = Place::new();
    let run = place.finished_run();
    let key = place.run(&["key"]).stdout.trim().to_owned();
    fs::write(place.path().join("runner.pub"), format!("{key}\n")).unwrap();
    assert_eq!(place.run(&["export", &run, "-o", "run.zip"]).code, Some(0));
    let trust = |ran: &super::place::Ran| (ran.code, ran.json()["trust"].clone(), ran.json()["signed_by"].clone());
    let own = place.run(&["audit", &run, "--json"]);
    assert_eq!(trust(&own), (Some(0), json!("trusted"), json!(key)), "by its own data folder");
    let unknown = place.run(&["audit", "run.zip", "--json"]);
    assert_eq!(trust(&unknown), (Some(0), json!("unknown_key"), json!(key)));
    for given in [key.as_str(), "runner.pub"] {
        let trusted = place.run(&["audit", "run.zip", "--key", given, "--json"]);
        assert_eq!(trust(&trusted), (Some(0), json!("trusted"), json!(key)));
    }

    // Another data folder makes a run of the same skill: whole, but with another key.
    let forger = Place::new();
    let forged = forger.finished_run();
    assert_eq!(forger.run(&["export", &forged, "-o", "run.zip"]).code, Some(0));
    let forged = forger.path().join("run.zip");
    let alone = place.run(&["audit", forged.to_str().unwrap(), "--json"]);
    assert_eq!((alone.code, &alone.json()["trust"]), (Some(0), &json!("unknown_key")));
    let found = place.run(&["audit", forged.to_str().unwrap(), "--key", &key, "--json"]);
    assert_eq!((found.code, &found.json()["violations"][0]["rule"]), (Some(1), &json!("SIGNATURE")), "{found:?}");

    let wrong = place.run(&["audit", "run.zip", "--key", "nothing"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("neither a public key (64 hexadecimal digits) nor a file"), "{wrong:?}");
    assert_eq!(place.run(&["key", "--data-dir", "elsewhere"]).code, Some(4));
}

#[test]
fn a_run_keeps_its_signer_when_the_key_of_its_data_folder_is_lost_or_replaced() {
    let place = Place::new();
    let run = place.finished_run();
    let old = place.run(&["key"]).stdout.trim().to_owned();
    fs::remove_file(place.path().join("data/signing-key")).unwrap();
    let lost = place.run(&["audit", &run, "--json"]);
    assert_eq!(
        (lost.code, &lost.json()["trust"], &lost.json()["signed_by"]),
        (Some(0), &json!("unknown_key"), &json!(old))
    );
    let newer = place.finished_run();
    let new = place.run(&["key"]).stdout.trim().to_owned();
    assert_ne!(new, old);
    assert_eq!(place.run(&["audit", &newer, "--json"]).json()["signed_by"], json!(new));
    assert_eq!(place.run(&["audit", &run, "--json"]).json()["trust"], json!("unknown_key"));
    assert_eq!(place.run(&["audit", &run, "--key", &old]).code, Some(0));
    assert_eq!(place.run(&["audit", &run, "--key", &new]).code, Some(1));
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
    let found = |at: usize| (&report["violations"][at]["rule"], &report["violations"][at]["file"]);
    assert_eq!([found(0), found(1)], [(&json!("SIGNATURE"), &json!(EVENTS)), (&json!("ROW"), &json!("store"))]);
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
