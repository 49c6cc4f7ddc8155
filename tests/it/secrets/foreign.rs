//! A data folder that comes from somebody else is looked at without starting what is in it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::cli::place::Place;

/// What docs/security.md says to remove before anything is looked at.
const REMOVED: [&str; 12] = [
    "npm",
    "engines",
    "agent-home",
    "environments",
    "skill-copies",
    "homes",
    "tmp",
    "tokens.json",
    "sessions.json",
    "service.json",
    "verify.json",
    "signing-key",
];

#[test]
fn commands_that_read_start_no_program_of_the_data_folder_and_need_nothing_that_is_removed_from_it() {
    let place = Place::new();
    let run = place.finished_run();
    let (data, trace) = (place.path().join("data"), place.path().join("trace"));
    let programs = data.join("npm/node_modules/.bin");
    fs::create_dir_all(&programs).unwrap();
    for name in ["gemini", "claude", "codex", "opencode", "qwen"] {
        let program = programs.join(name);
        fs::write(&program, format!("#!/bin/sh\ntouch {}\necho 2.0.0\n", trace.display())).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    }
    let reading: [&[&str]; 8] = [
        &["verify"],
        &["runs"],
        &["show", &run],
        &["result", &run],
        &["history", &run],
        &["logs", &run],
        &["audit", &run],
        &["export", &run, "-o", "run.zip"],
    ];
    let read_all = || {
        for command in reading {
            let ran = place.run(command);
            assert_eq!(ran.code, Some(0), "{command:?}: {ran:?}");
            assert!(!trace.exists(), "{command:?}");
        }
    };
    read_all();
    assert_eq!(place.run(&["engines"]).code, Some(0));
    assert!(trace.exists(), "this command asks each program for its version");
    fs::remove_file(&trace).unwrap();

    assert_eq!(place.run(&["audit", &run, "--json"]).json()["trust"], "trusted");
    for name in REMOVED {
        let path = data.join(name);
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    read_all();
    assert_eq!(place.run(&["audit", &run, "--json"]).json()["trust"], "unknown_key");
    let security = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/security.md")).unwrap();
    let told = format!("rm -rf {}", REMOVED.join(" "));
    assert!(security.contains(&told), "{told}");
}
