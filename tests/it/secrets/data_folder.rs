//! The data folder belongs to the service's user alone.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::cli::place::Place;
use crate::support::{Call, LONG, Sse, script_skill};

/// Everything below a folder that another user could read, write or enter, with its mode.
pub fn open_to_others(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        // The service may have removed it meanwhile.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.mode() & 0o077 != 0 && !metadata.is_symlink() {
            found.push((path.clone(), format!("{:o}", metadata.mode() & 0o777)));
        }
        if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    found
}

#[test]
fn everything_a_service_and_its_runs_write_is_for_their_user_alone() {
    let place = Place::new();
    let (running, _) = place.start(&["serve", "--port", "0"], "listening on ");
    let run = place.finished_run();
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(0));
    let data = place.path().join("data");
    assert!(data.join("runs").join(run).join("artifacts/note.txt").exists());
    assert_eq!(open_to_others(&data), []);
    assert_eq!(fs::metadata(data.join("LOCK")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn an_upload_is_for_the_services_user_alone_from_its_first_byte() {
    let place = Place::new();
    let input = json!({"type": "object", "properties": {"doc": {"type": "string"}}, "required": ["doc"]});
    let code = "cat > /dev/null; echo '{\"success\":true,\"data\":{}}'\n";
    script_skill(&place.path().join("skills"), "reads", code, json!({"input": input}));
    let (running, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let address: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let created = Call::new(address, "POST", "/v1/jobs").json(&json!({"skill_id": "reads"})).send();
    let run = created.json()["run_id"].as_str().unwrap().to_owned();

    // The first half of a body, whose last byte is sent when the file was seen.
    let words = "some words of a document ".repeat(8192);
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"doc\"; filename=\"doc.txt\"\r\n\r\n{words}\r\n--b--\r\n"
    );
    let head = format!(
        "POST /v1/jobs/{run}/upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut client = TcpStream::connect(address).unwrap();
    let (first, rest) = body.split_at(body.len() - 100);
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(first.as_bytes()).unwrap();
    let data = place.path().join("data");
    let deadline = Instant::now() + LONG;
    while !holds(&data, "some words of a document") {
        assert!(Instant::now() < deadline, "the upload is written as it comes");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(open_to_others(&data), [], "while it comes");
    client.write_all(rest.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Sse::open(address, &format!("/v1/jobs/{run}/events"), &[]).until_end();
    assert!(holds(&data, "some words of a document"));
    assert_eq!(open_to_others(&data), [], "when it was taken");
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(0));
}

/// Whether a file below a folder holds this text. Files may come and go meanwhile.
fn holds(folder: &Path, text: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => holds(&entry.path(), text),
        Ok(kind) if kind.is_file() => {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        }
        _ => false,
    })
}

#[test]
fn a_run_without_a_service_keeps_others_out_as_well() {
    let place = Place::new();
    place.finished_run();
    assert_eq!(open_to_others(&place.path().join("data")), []);
}

#[test]
fn a_data_folder_that_is_open_to_others_is_closed_at_start_with_a_warning() {
    let place = Place::new();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::create_dir(data.join("runs")).unwrap();
    for folder in [&data, &data.join("runs")] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    for warnings in [1, 1] {
        let (running, _) = place.start(&["serve", "--port", "0"], "listening on ");
        running.signal(Signal::TERM);
        assert_eq!(running.end().code, Some(0));
        assert_eq!(open_to_others(&data), [(data.join("runs"), "755".to_owned())], "what is inside cannot be reached");
        let log = fs::read_to_string(data.join("logs/skill-runner.log")).unwrap();
        let said = log.lines().filter(|line| line.contains("WARN") && line.contains("(mode 0755)")).count();
        assert_eq!(said, warnings, "{log}");
    }
}

#[test]
fn a_link_in_the_place_of_the_lock_is_not_followed() {
    let place = Place::new();
    let (data, outside) = (place.path().join("data"), place.path().join("outside"));
    fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink(&outside, data.join("LOCK")).unwrap();
    let ran = place.run(&["run", "tiny", "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("LOCK"), "{ran:?}");
    assert!(!outside.exists());
}

/// A service that root started with `data_dir: /` once closed the machine to all its users.
#[test]
fn a_folder_of_something_else_is_refused_and_stays_as_it_is() {
    let place = Place::new();
    let folder = place.path().join("others");
    let names = || {
        let listed = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = listed.collect();
        names.sort();
        names
    };
    for name in ["bin", "tmp"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    for setting in ["data_dir", "agent_home"] {
        for command in [&["run", "tiny"][..], &["serve", "--port", "0"]] {
            let variable = format!("SKILL_RUNNER_{}", setting.to_uppercase());
            let ran = place.run_with((variable.as_str(), folder.to_str().unwrap()), command);
            assert_eq!(ran.code, Some(2), "{ran:?}");
            let told = format!("  {setting} ({}): holds something else (", folder.display());
            assert!(ran.stderr.contains(&told), "{ran:?}");
            assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0o755);
            assert_eq!(names(), ["bin", "tmp"]);
        }
    }
}

#[test]
fn a_new_disk_and_an_old_data_folder_with_things_of_the_operator_are_opened() {
    let place = Place::new();
    let data = place.path().join("data");
    fs::create_dir_all(data.join("lost+found")).unwrap();
    place.finished_run();
    fs::write(data.join("notes of the operator"), "").unwrap();
    place.finished_run();
}

/// Without its store every run would be taken for one that was never created, and removed: a disk that is not mounted, or a folder
/// that somebody moved, must not cost what the runs left.
#[test]
fn a_data_folder_whose_store_is_missing_or_empty_is_refused_and_keeps_its_runs() {
    let place = Place::new();
    let run = place.run(&["run", "tiny", "--json"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let id = run.json()["run_id"].as_str().unwrap().to_owned();
    let (store, aside) = (place.path().join("data/store"), place.path().join("aside"));
    let whole = || fs::read_dir(place.run_folder(&id)).unwrap().count();
    let before = whole();
    fs::rename(&store, &aside).unwrap();
    for empty in [false, true] {
        if empty {
            fs::create_dir(&store).unwrap();
        }
        for command in [&["serve", "--port", "0"][..], &["run", "tiny"]] {
            let ran = place.run(command);
            assert_eq!(ran.code, Some(1), "{ran:?}");
            assert!(ran.stderr.contains("is missing or empty") && ran.stderr.contains("restore a backup"), "{ran:?}");
        }
        assert_eq!(whole(), before);
    }
    fs::remove_dir(&store).unwrap();
    fs::rename(&aside, &store).unwrap();
    let audited = place.run(&["audit", &id]);
    assert_eq!(audited.code, Some(0), "{audited:?}");
}
