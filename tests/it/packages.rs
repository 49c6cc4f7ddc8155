//! Packages: sent by strangers and authors, installed whole or not at all.

mod authoring;
mod hostile;
mod installing;
mod killed_changes;
mod killing;
mod lifecycle;
mod open_format;
mod self_tests;
mod showing;

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::zips::zip_folder;
use crate::support::{Answer, Server, program, script_skill};

/// The zip of a script skill called `demo` of this version, whose answer is its version.
fn package(version: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    write_package(folder.path(), version);
    zip_folder(&folder.path().join("demo"))
}

/// The same as a folder.
fn write_package(folder: &Path, version: &str) {
    let answer = format!(r#"echo '{{"success":true,"action":"run","data":{{"version":"{version}"}}}}'"#);
    script_skill(folder, "demo", &format!("cat >/dev/null\n{answer}\n"), json!({"runner": {"version": version}}));
}

fn send(server: &Server, zip: &[u8]) -> Answer {
    server.call("POST", "/v1/skill-packages/install?wait=60").parts(&[("file", zip)]).send()
}

/// Sends a package and waits for its end; what became of it.
fn install(server: &Server, zip: &[u8]) -> Value {
    let answer = send(server, zip);
    let mut install = answer.json();
    let failed = install["status"] == "failed";
    assert_eq!(answer.status >= 400, failed, "{}", answer.text());
    assert!(failed || answer.status == 202, "{}", answer.text());
    if let Some(error) = install["error"].as_object_mut() {
        assert_eq!(error.remove("request_id"), Some(Value::Null), "every refusal has the envelope");
    }
    assert_eq!(server.get(&format!("/v1/skill-packages/{}", install["request_id"].as_str().unwrap())).json(), install);
    install
}

/// Every path below a folder with its length, but the store, whose files change by themselves.
fn tree(folder: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() && path != "data/store" {
                waiting.push(entry.path());
            }
            found.push((path, if metadata.is_dir() { 0 } else { metadata.len() }));
        }
    }
    found.sort();
    found
}

/// A command in this folder.
fn cli(folder: &Path, args: &[&str]) -> Output {
    program().args(args).current_dir(folder).output().unwrap()
}

/// The document that a command prints.
fn json_of(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_slice(&cli(folder, args).stdout).unwrap()
}
