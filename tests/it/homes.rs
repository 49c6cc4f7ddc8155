//! Homes of engines: one for each run, with links to the operator's login, gone with the run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::skill::HELLO;
use crate::support::{SHIPPED, Server};

/// A program in the place of codex that refreshes its login in the way it is given, keeps a transcript, and fails.
fn codex(folder: &Path, refresh: &str) -> PathBuf {
    let program = folder.join("codex");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo codex-cli 0.166.0; exit; }}\ncd \"$CODEX_HOME\"\n\
         mkdir -p sessions; echo words > sessions/transcript\n{refresh}\nexit 1\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn a_login_that_an_engine_refreshes_is_the_operators_afterwards_and_its_transcript_is_the_runs() {
    let whole = r#"echo '{"tokens":{"access_token":"new-token-1"}}' > new; mv new auth.json"#;
    let in_place = r#"echo '{"tokens":{"access_token":"new-token-1"}}' > auth.json"#;
    for refresh in [whole, in_place] {
        let folder = tempfile::tempdir().unwrap();
        let program = codex(folder.path(), refresh);
        let home = folder.path().join("homes");
        let login = home.join("codex/.codex/auth.json");
        fs::create_dir_all(login.parent().unwrap()).unwrap();
        fs::write(&login, r#"{"tokens":{"access_token":"old-token-1"}}"#).unwrap();
        let server = Server::with(&[
            SHIPPED,
            ("engines.codex.command", program.to_str().unwrap()),
            ("agent_home", home.to_str().unwrap()),
        ]);
        let body = json!({"skill_id": "demo-notes", "engine": "codex", "input": {"topic": "plums"}});
        let (_, run) = server.create_with(&body);
        server.finish(&run);
        assert_eq!(fs::read_to_string(&login).unwrap(), "{\"tokens\":{\"access_token\":\"new-token-1\"}}\n");
        let own = server.data().join("homes").join(&run).join(".codex");
        assert_eq!(fs::read_link(own.join("auth.json")).unwrap(), login);
        assert_eq!(fs::read_to_string(own.join("sessions/transcript")).unwrap(), "words\n");
        let shared: Vec<_> =
            fs::read_dir(login.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(shared, ["auth.json"]);
    }
}

#[test]
fn a_link_in_the_place_of_a_folder_of_the_home_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    // Whatever the sandbox hides: the link need not lead anywhere in it.
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let files = ["auth.json", "config.toml", "skills/one", "prompts/one"];
    for file in files {
        let path = outside.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "not the run's").unwrap();
    }
    let plant = format!("cd ..; mv .codex old; ln -s {} .codex", outside.path().display());
    let program = codex(folder.path(), &plant);
    let home = folder.path().join("homes");
    fs::create_dir_all(home.join("codex/.codex")).unwrap();
    fs::write(home.join("codex/.codex/auth.json"), r#"{"tokens":{"access_token":"old-token-1"}}"#).unwrap();
    for sandbox in ["auto", "off"] {
        let server = Server::with(&[
            SHIPPED,
            ("sandbox", sandbox),
            ("engines.codex.command", program.to_str().unwrap()),
            ("agent_home", home.to_str().unwrap()),
        ]);
        let body = json!({"skill_id": "demo-notes", "engine": "codex", "input": {"topic": "plums"}});
        let (_, run) = server.create_with(&body);
        server.finish(&run);
        assert!(server.data().join("homes").join(&run).join("old").exists(), "the link was planted");
        for file in files {
            let path = outside.path().join(file);
            assert!(path.symlink_metadata().is_ok_and(|found| found.is_file()), "{file}, {sandbox}");
            assert_eq!(fs::read_to_string(path).unwrap(), "not the run's", "{file}, {sandbox}");
        }
    }
}

#[test]
fn a_home_goes_with_its_run_and_one_without_a_run_is_swept() {
    let server = Server::start();
    server.skill("tiny", HELLO, json!({}));
    let (_, run) = server.finished("tiny");
    let homes = server.data().join("homes");
    let stray = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";
    let make = |name: &str| {
        fs::create_dir_all(homes.join(name).join("sessions")).unwrap();
        fs::write(homes.join(name).join("sessions/transcript"), "words").unwrap();
    };
    make(&run);
    make(stray);
    server.block_on(server.orchestrator.sweep_homes());
    assert_eq!((homes.join(&run).exists(), homes.join(stray).exists()), (true, false));
    make(stray);
    let server = server.restarted(&[]);
    assert_eq!((homes.join(&run).exists(), homes.join(stray).exists()), (true, false), "a start sweeps, too");
    let cleaned = server.post("/v1/jobs/cleanup", &json!({}));
    assert_eq!((cleaned.status, &cleaned.json()["runs_deleted"]), (200, &json!(1)), "{}", cleaned.text());
    assert!(!homes.join(&run).exists());
}
