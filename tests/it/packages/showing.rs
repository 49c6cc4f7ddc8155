//! `skill show` and `skill pack`: what a skill is, and its zip.

use std::fs;

use serde_json::{Value, json};

use super::{cli, json_of, tree};

#[test]
fn a_skill_is_shown_with_its_fields_its_limits_and_its_files() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    cli(folder, &["skill", "new", "word-count", "--into", "skills"]);
    let runner = folder.join("skills/word-count/assets/runner.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&runner).unwrap()).unwrap();
    manifest["automation"] = json!({"timeout_sec": 20, "network": "off", "fs_scope": "run"});
    fs::write(&runner, manifest.to_string()).unwrap();
    let text = String::from_utf8(cli(folder, &["skill", "show", "word-count"]).stdout).unwrap();
    let fact = |name: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{name}: {text}")).split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert!(text.starts_with("word-count 0.1.0\nCounts the words of a text."), "{text}");
    assert_eq!(fact("command"), "python3 scripts/run.py");
    assert_eq!((fact("engines"), fact("modes")), ("script".to_owned(), "auto".to_owned()));
    assert_eq!((fact("network"), fact("limits")), ("off".to_owned(), "20 s for an attempt".to_owned()));
    assert_eq!(fact("text"), "string yes The text to count.");
    assert_eq!(fact("words"), "integer yes How many words it has. (at least 0)");
    assert_eq!(fact("Parameter"), "no fields");
    assert!(text.contains("  scripts/run.py\n"), "{text}");
    let document = json_of(folder, &["skill", "show", "word-count", "--json"]);
    assert_eq!(fact("fingerprint"), document["fingerprint"].as_str().unwrap());
    assert_eq!(document["schemas"]["input"]["required"], json!(["text"]));
    assert_eq!((&document["automation"]["network"], &document["findings"]), (&json!("off"), &json!([])));

    // A demo skill that the program itself has, one that is broken, and one that is nowhere.
    let shown = json_of(folder, &["skill", "show", "demo-echo", "--json"]);
    assert_eq!((&shown["id"], &shown["place"]), (&json!("demo-echo"), &json!("in the program itself")));
    assert_eq!(cli(folder, &["skill", "show", "word-cuont"]).status.code(), Some(4));
    fs::write(&runner, "{").unwrap();
    let broken = cli(folder, &["skill", "show", "word-count"]);
    assert_eq!(broken.status.code(), Some(4));
    assert!(String::from_utf8(broken.stdout).unwrap().contains("INVALID_JSON"));
}

#[test]
fn a_packed_skill_has_the_same_bytes_every_time_and_installs() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    cli(folder, &["skill", "new", "word-count", "--lang", "bash"]);
    let package = folder.join("word-count");
    fs::create_dir_all(package.join(".git")).unwrap();
    fs::write(package.join(".git/config"), "x").unwrap();
    let packed = json_of(folder, &["skill", "pack", "./word-count", "--json"]);
    assert_eq!((&packed["zip"], &packed["ok"]), (&json!("word-count-0.1.0.zip"), &json!(true)));
    let first = fs::read(folder.join("word-count-0.1.0.zip")).unwrap();
    // The same files, written anew in another place and at another time.
    let other = tempfile::tempdir().unwrap();
    let copied = std::process::Command::new("cp").arg("-r").arg(&package).arg(other.path()).status().unwrap();
    assert!(copied.success());
    fs::remove_dir_all(other.path().join("word-count/.git")).unwrap();
    let moved = other.path().join("word-count");
    let to = folder.join("again.zip");
    let args = ["skill", "pack", moved.to_str().unwrap(), "-o", to.to_str().unwrap()];
    assert!(cli(folder, &args).status.success());
    assert!(fs::read(&to).unwrap() == first, "the bytes differ");
    let installed = json_of(folder, &["skill", "install", "again.zip", "--json"]);
    assert_eq!((&installed["ok"], &installed["version"]), (&json!(true), &json!("0.1.0")));
    let shown = json_of(folder, &["skill", "show", "word-count", "--json"]);
    assert_eq!(shown["fingerprint"], packed["fingerprint"]);
    assert_eq!(json_of(folder, &["skill", "test", "word-count", "--json"])["ok"], true);
}

#[test]
fn what_packs_well_enough_for_a_bomb_still_installs() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    cli(folder, &["skill", "new", "word-count"]);
    for number in 0..3 {
        fs::write(folder.join(format!("word-count/zeros-{number}")), vec![0; 5 * 1024 * 1024]).unwrap();
    }
    assert!(cli(folder, &["skill", "pack", "./word-count"]).status.success());
    let installed = cli(folder, &["skill", "install", "word-count-0.1.0.zip"]);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
}

#[test]
fn a_package_that_breaks_rules_is_not_packed_and_a_zip_never_goes_into_the_package() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    cli(folder, &["skill", "new", "word-count"]);
    let before = tree(folder);
    for (args, told) in [
        (&["skill", "pack", "./word-count", "-o", "word-count/x.zip"][..], "part of the package"),
        (&["skill", "pack", "./word-count", "-o", "word-count"], "it is a folder"),
        (&["skill", "pack", "./word-count", "-o", "gone/x.zip"], "cannot be used"),
        (&["skill", "pack", "./gone"], "is not a folder"),
    ] {
        let refused = cli(folder, args);
        let text = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(told), "{args:?}: {text}");
    }
    assert_eq!(tree(folder), before);
    fs::remove_file(folder.join("word-count/scripts/run.py")).unwrap();
    let refused = cli(folder, &["skill", "pack", "./word-count"]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(String::from_utf8(refused.stdout).unwrap().contains("FILE_MISSING"));
    assert!(!folder.join("word-count-0.1.0.zip").exists());
}
