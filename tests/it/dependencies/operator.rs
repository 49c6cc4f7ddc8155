//! The operator's side: which index is used, which installer, and what an index that is missing or cannot be reached gives.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{GREETS, python_skill, wheel};
use crate::support::{left_out, program};

/// Runs a skill that needs `requirement` with these variables; the wheels are those in the folder `wheels`.
fn run(place: &Path, requirement: &str, variables: &[(&str, &str)]) -> Output {
    python_skill(place, "greeter", GREETS, &json!({"requirements": [requirement]}), &[]);
    fs::create_dir_all(place.join("wheels")).unwrap();
    fs::write(place.join("wheels/greet-1.0-py3-none-any.whl"), wheel("1.0", "good day")).unwrap();
    program()
        .arg("run")
        .arg(place.join("greeter"))
        .arg("--data-dir")
        .arg(place.join("data"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn wheels(place: &Path) -> String {
    place.join("wheels").to_str().unwrap().to_owned()
}

#[test]
fn packages_come_from_where_the_operator_says() {
    let place = tempfile::tempdir().unwrap();
    let links = wheels(place.path());
    let ran = run(place.path(), "greet>=1", &[("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", &links)]);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{told}");
    let result: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(result["greeting"], "good day", "{result}");
    let doctor = program().arg("doctor").arg("--data-dir").arg(place.path().join("data")).output().unwrap();
    let told = String::from_utf8_lossy(&doctor.stdout);
    let line = told.lines().find(|line| line.contains("python packages")).unwrap();
    assert!(line.contains(" for Python 3.") && line.contains("1 installed for skills"), "{told}");
}

#[test]
fn a_package_that_is_nowhere_is_named_and_so_is_an_index_that_cannot_be_reached() {
    let place = tempfile::tempdir().unwrap();
    let links = wheels(place.path());
    let ran = run(place.path(), "no-such-package-here==1", &[("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", &links)]);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{told}");
    for word in ["DEPENDENCIES_UNAVAILABLE", "no-such-package-here==1", "No matching distribution found"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    // Nobody listens there.
    let index = [("PIP_INDEX_URL", "http://me:s3cret@127.0.0.1:9/simple"), ("PIP_RETRIES", "1")];
    let ran = run(place.path(), "no-such-package-here==2", &index);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{told}");
    for word in ["DEPENDENCIES_UNAVAILABLE", "no-such-package-here==2", "index_unreachable", "PIP_INDEX_URL"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(!told.contains("s3cret"), "{told}");
}

/// An index, or a proxy before it, that answers every request with this status.
fn answering(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/simple", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut line = String::new();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {}
            let _ = write!(connection, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    url
}

#[test]
fn an_index_that_answers_with_an_error_is_told_from_one_that_has_no_such_package() {
    for (status, reason) in [
        ("502 Bad Gateway", "index_unreachable"),
        ("403 Forbidden", "index_unreachable"),
        ("404 Not Found", "not_found"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let index = answering(status);
        let ran = run(place.path(), "no-such-package-here==3", &[("PIP_INDEX_URL", &index), ("PIP_RETRIES", "0")]);
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{told}");
        for word in ["DEPENDENCIES_UNAVAILABLE", "no-such-package-here==3", reason] {
            assert!(told.contains(word), "{status}: {word}: {told}");
        }
        let left = fs::read_dir(place.path().join("data/environments")).unwrap().flatten();
        let logs = left.filter(|entry| entry.path().join("pip.log").exists()).count();
        assert_eq!(logs, 0, "the log of pip is gone");
    }
}

#[test]
fn uv_is_used_where_it_is_installed() {
    let place = tempfile::tempdir().unwrap();
    let tools = place.path().join("tools");
    let fetched = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--retries", "1", "--target"])
        .arg(&tools)
        .arg("uv")
        .output()
        .unwrap();
    if !fetched.status.success() {
        let said = String::from_utf8_lossy(&fetched.stderr);
        left_out::tell("uv cannot be fetched here", &format!("uv_is_used_where_it_is_installed: {said}"));
        return;
    }
    let path = format!("{}:{}", tools.join("bin").display(), std::env::var("PATH").unwrap());
    let links = wheels(place.path());
    let variables = [("PATH", path.as_str()), ("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", &links)];
    let ran = run(place.path(), "greet", &variables);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{told}");
    let environments = fs::read_dir(place.path().join("data/environments")).unwrap();
    let [record] = environments
        .map(|entry| entry.unwrap().path().join("environment.json"))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    assert!(record["installer"].as_str().unwrap().starts_with("uv "), "{record}");
    assert_eq!(record["packages"], json!(["greet==1.0"]));
    let ran = run(place.path(), "no-such-package-here==1", &variables);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{told}");
    for word in ["DEPENDENCIES_UNAVAILABLE", "no-such-package-here", "not_found"] {
        assert!(told.contains(word), "{word}: {told}");
    }
}
