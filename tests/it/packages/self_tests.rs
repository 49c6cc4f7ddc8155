//! The tests that packages bring, and the packages that `skill new` writes: each lints clean and passes its own tests.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{cli, json_of};

/// A new package of these flags in this folder.
#[track_caller]
fn new(folder: &Path, name: &str, flags: &[&str]) {
    let made = cli(folder, &[&["skill", "new", name], flags].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The tests of a package, written anew, and what came of them: the exit status and the document.
fn tested(folder: &Path, tests: &Value) -> (Option<i32>, Value) {
    let place = folder.join("word-count/tests");
    fs::remove_dir_all(&place).unwrap();
    fs::create_dir(&place).unwrap();
    fs::write(place.join("all.json"), tests.to_string()).unwrap();
    let output = cli(folder, &["skill", "test", "./word-count", "--json"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}")))
}

#[test]
fn every_new_package_lints_clean_and_passes_its_own_tests() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let kinds = [
        ("script", &["python", "bash", "node"][..]),
        ("hybrid", &["python", "bash", "node"]),
        ("prompt", &[""]),
        ("interactive", &[""]),
    ];
    for (kind, languages) in kinds {
        for language in languages {
            let name = format!("new-{kind}{}{language}", if language.is_empty() { "" } else { "-" });
            let lang: &[&str] = if language.is_empty() { &[] } else { &["--lang", language] };
            new(folder, &name, &[&["--type", kind], lang].concat());
            let linted = json_of(folder, &["skill", "lint", &name, "--json"]);
            assert_eq!(linted, json!({"ok": true, "findings": []}), "{name}");
            let output = cli(folder, &["skill", "test", &format!("./{name}"), "--json"]);
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name}: nothing of how tests are run is shown");
            let tested: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((&tested["ok"], &tested["failed"]), (&json!(true), &json!(0)), "{name}: {tested:#}");
            assert!(tested["passed"].as_u64().unwrap() >= 1, "{name}");
            // Whatever is tested runs elsewhere: no data folder is made here.
            assert!(!folder.join("data").exists());
        }
    }
    for kind in ["prompt", "interactive"] {
        let refused = cli(folder, &["skill", "new", "other", "--type", kind, "--lang", "bash"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(!folder.join("other").exists());
    }
}

/// Whoever tests a package of somebody else does not give it files of his own.
#[test]
fn a_test_gets_no_file_but_those_of_its_package() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    new(folder, "word-count", &[]);
    fs::write(folder.join("secret"), "of the user").unwrap();
    let pipe = folder.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let absolute = folder.join("secret").display().to_string();
    let foreign =
        [absolute.as_str(), "../../secret", "../../../../../../etc/hostname", "/proc/self/environ", "", "missing"];
    let named = |path: &str| json!({"name": path, "files": {"text": path}, "expect": {"status": "failed"}});
    let played = |path: &str| json!({"name": path, "engine": "codex", "recording": path, "input": {"text": "a"}, "expect": {"status": "failed"}});
    let elsewhere = foreign.iter().filter(|path| !path.is_empty()).copied();
    let recordings: Vec<&str> = elsewhere.chain([pipe.to_str().unwrap()]).collect();
    let tests: Vec<Value> =
        foreign.iter().map(|path| named(path)).chain(recordings.iter().map(|path| played(path))).collect();
    let (status, document) = tested(folder, &json!(tests));
    assert_eq!(status, Some(1));
    let problems = document["tests"].as_array().unwrap().iter().map(|test| test["problem"].as_str().unwrap_or("none"));
    let told: Vec<bool> = problems.map(|told| told.contains("has no file") || told.contains("is a folder")).collect();
    assert_eq!(told, vec![true; tests.len()], "{document:#}");
}

#[test]
fn a_test_that_fails_says_where_what_was_expected_and_what_came() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    new(folder, "word-count", &[]);
    let input = json!({"text": "a b"});
    let (status, document) = tested(
        folder,
        &json!([
            {"name": "right", "input": input, "expect": {"output": {"text": "a b", "words": 2}}},
            {"name": "wrong", "input": input, "expect": {"output": {"text": "a b", "words": 3, "more": true}}},
            {"name": "schema", "input": input, "expect": {"schema": "assets/output.schema.json"}},
            {"name": "another schema", "input": input, "expect": {"schema": {"properties": {"words": {"minimum": 9}}}}},
            {"name": "refused", "input": {}, "expect": {"error": "INPUT_VALIDATION_FAILED", "status": "refused"}},
            {"name": "not refused", "input": {}, "expect": {"output": {}}},
            {"name": "without a recording", "input": input, "engine": "codex", "expect": {"status": "failed"}},
        ]),
    );
    assert_eq!((status, &document["passed"], &document["failed"]), (Some(1), &json!(3), &json!(4)), "{document:#}");
    let ok = |test: &Value| (test["name"].as_str().unwrap().to_owned(), test["ok"] == true);
    let tests = document["tests"].as_array().unwrap();
    assert_eq!(
        tests.iter().map(ok).collect::<Vec<_>>(),
        [
            ("right", true),
            ("wrong", false),
            ("schema", true),
            ("another schema", false),
            ("refused", true),
            ("not refused", false),
            ("without a recording", false)
        ]
        .map(|(name, ok)| (name.to_owned(), ok))
    );
    assert_eq!(
        tests[1]["differences"],
        json!([{"at": "output/words", "expected": 3, "actual": 2}, {"at": "output/more", "expected": true}])
    );
    assert_eq!(tests[5]["error"]["code"], "INPUT_VALIDATION_FAILED");
    assert!(tests[6]["problem"].as_str().unwrap().contains("needs a recording"), "{document:#}");
    let told = cli(folder, &["skill", "test", "./word-count"]);
    let told = String::from_utf8(told.stdout).unwrap();
    for line in [
        "ok   right",
        "FAIL wrong (tests/all.json)",
        "output/words",
        "expected  3",
        "actual    2",
        "4 failed, 3 passed",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
}

#[test]
fn files_are_given_and_files_of_tests_that_cannot_be_read_fail() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    new(folder, "word-count", &[]);
    let package = folder.join("word-count");
    let input = json!({"type": "object", "required": ["doc"], "properties": {"doc": {"type": "string"}}});
    fs::write(package.join("assets/input.schema.json"), input.to_string()).unwrap();
    let script = "import json, sys\nparams = json.load(sys.stdin)['params']\ntext = open(params['doc']).read()\n\
        print(json.dumps({'success': True, 'action': 'run', 'data': {'text': text, 'words': len(text.split())}}))\n";
    fs::write(package.join("scripts/run.py"), script).unwrap();
    let tests = package.join("tests");
    fs::create_dir(tests.join("files")).unwrap();
    fs::write(tests.join("files/three.txt"), "one two three").unwrap();
    let good =
        json!({"files": {"doc": "files/three.txt"}, "expect": {"output": {"text": "one two three", "words": 3}}});
    fs::write(tests.join("word-count.json"), good.to_string()).unwrap();
    assert_eq!(json_of(folder, &["skill", "test", "./word-count", "--json"])["passed"], 1);
    let missing = json!({"expect": {"error": "MISSING_INPUT_FILES"}});
    fs::write(tests.join("missing.json"), missing.to_string()).unwrap();
    fs::write(tests.join("typo.json"), json!({"expects": {}}).to_string()).unwrap();
    fs::write(tests.join("gone.json"), json!({"files": {"doc": "gone"}, "expect": {"status": "failed"}}).to_string())
        .unwrap();
    let output = cli(folder, &["skill", "test", "./word-count", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told: Vec<(&str, bool)> = document["tests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|test| (test["file"].as_str().unwrap(), test["ok"] == true))
        .collect();
    assert_eq!(
        told,
        [
            ("tests/gone.json", false),
            ("tests/missing.json", true),
            ("tests/typo.json", false),
            ("tests/word-count.json", true)
        ]
    );
    assert!(document["tests"][2]["problem"].as_str().unwrap().contains("expects"), "{document:#}");
}

#[test]
fn an_installed_skill_is_tested_by_its_name_and_one_without_tests_is_told_so() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    new(folder, "word-count", &[]);
    assert!(cli(folder, &["skill", "install", "./word-count"]).status.success());
    fs::remove_dir_all(folder.join("word-count")).unwrap();
    let tested = json_of(folder, &["skill", "test", "word-count", "--json"]);
    assert_eq!((&tested["skill_id"], &tested["ok"]), (&json!("word-count"), &json!(true)));
    for (skill, status, told) in [
        ("demo-echo", 4, "has no tests"),
        ("word-cuont", 4, "did you mean \"word-count\"?"),
        ("./gone", 2, "is not a folder"),
    ] {
        let refused = cli(folder, &["skill", "test", skill]);
        let text = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(status), "{skill}: {text}");
        assert!(text.contains(told), "{skill}: {text}");
    }
}

#[test]
fn a_question_that_a_test_does_not_answer_fails_it() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    new(folder, "greeting", &["--type", "interactive"]);
    let path = folder.join("greeting/tests/greeting.json");
    let mut tests: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    tests[0]["replies"] = json!([]);
    fs::write(&path, tests.to_string()).unwrap();
    let output = cli(folder, &["skill", "test", "./greeting", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{document:#}");
    let test = &document["tests"][0];
    assert_eq!(test["differences"], json!([{"at": "status", "expected": "succeeded", "actual": "canceled"}]));
    assert!(test["error"]["message"].as_str().unwrap().contains("What is your name?"), "{document:#}");
}
