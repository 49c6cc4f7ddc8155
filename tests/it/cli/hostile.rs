//! What others wrote, as the command line meets it: configuration files that are none, and text that would control a terminal.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use rustix::fs::{FileType, Mode};
use serde_json::Value;

use super::place::Place;
use crate::support::terminal::Terminal;

#[test]
fn a_configuration_file_is_a_short_file_and_nothing_else() {
    let place = Place::new();
    let at = |name: &str| place.path().join(name);
    fs::write(at("real.yaml"), "port: 81\n").unwrap();
    symlink("real.yaml", at("link.yaml")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe.yaml"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::create_dir(at("folder.yaml")).unwrap();
    // A file of a terabyte that takes no space.
    File::create(at("long.yaml")).unwrap().set_len(1 << 40).unwrap();
    fs::write(at("latin.yaml"), b"host: \xff\n").unwrap();
    for (file, told) in [
        ("link.yaml", "is a link, and links are not followed"),
        ("pipe.yaml", "cannot be read: it is not a regular file"),
        ("folder.yaml", "cannot be read: it is not a regular file"),
        ("long.yaml", "has more than 65536 bytes"),
        ("latin.yaml", "is not UTF-8 text"),
        ("/dev/zero", "cannot be read: it is not a regular file"),
    ] {
        for command in ["config", "serve"] {
            let ran = place.run(&[command, "--config", file]);
            assert_eq!(ran.code, Some(2), "{command} {file}: {ran:?}");
            assert!(ran.stderr.contains(&format!("the file ({file}): {told}")), "{command} {file}: {ran:?}");
        }
    }
    assert_eq!(place.run(&["config", "--config", "real.yaml"]).code, Some(0));
    // The same for the file that is looked for in the working directory.
    symlink("real.yaml", at("skill-runner.yaml")).unwrap();
    let ran = place.run(&["config"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("give the file itself with --config (real.yaml)"), "{ran:?}");
}

#[test]
fn a_pipe_or_a_device_in_the_place_of_a_file_is_refused_and_not_waited_for() {
    let place = Place::new();
    let at = |name: &str| place.path().join(name);
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    symlink("pipe", at("link")).unwrap();
    symlink("/dev/zero", at("endless")).unwrap();
    for file in ["pipe", "link", "endless"] {
        for (args, told) in [
            (vec!["skill", "install", file], format!("{file} is neither a folder nor a file; name a zip or")),
            (vec!["skill", "import", file], format!("{file} is neither a folder nor a zip")),
            (vec!["audit", file], format!("{file:?} is neither a run's id nor")),
            (vec!["audit", "--key", file, "skills"], format!("--key {file:?} is neither a public key")),
            (vec!["replay", file], format!("{file} is not a file")),
            (vec!["run", "tiny", "--file", &format!("doc={file}")], "it is not a regular file".to_owned()),
        ] {
            let ran = place.run(&args);
            assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
            assert!(ran.stderr.contains(&told), "{args:?}: {ran:?}");
        }
    }
}

/// Runs a command on a terminal; everything it wrote.
pub fn on_terminal(command: Command) -> String {
    Terminal::start(command, 80).end().1
}

/// Fails if what a command wrote on a terminal controls it in any way but those of the program itself.
pub fn assert_controls_nothing(what: &[&str], shown: &str) {
    let left = ["\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m", "\r\x1b[2K", "\r\n"]
        .iter()
        .fold(shown.to_owned(), |text, own| text.replace(own, "\n"));
    let controls = |character: char| (character.is_control() && character != '\n') || character == '\u{202e}';
    assert!(!left.contains(controls), "{what:?}: {shown:?}");
}

/// Everything that could control a terminal: escapes in seven and in eight bits, a lone return, a bell, turned text.
const NASTY: &str = "cat >/dev/null\n\
    printf 'a\\033[2Jb\\033]0;title\\007c\\rd\\302\\2332Je\\342\\200\\256f\\r\\nend\\n' >&2\n\
    echo '{\"success\":true,\"data\":{\"text\":\"x\\u001b[2Jy\\u009b2Jz\"}}'\n";

#[test]
fn what_an_engine_wrote_does_not_control_the_terminal_and_is_left_alone_in_a_pipe() {
    let place = Place::new();
    place.skill("nasty", NASTY);
    let (running, _) = place.start(&["serve", "--port", "0"], "listening on ");
    let ran = place.run(&["run", "nasty", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let run = ran.json()["run_id"].as_str().unwrap().to_owned();
    let stderr = ["logs", &run, "--stream", "stderr"];
    let written = "a\x1b[2Jb\x1b]0;title\x07c\rd\u{9b}2Je\u{202e}f\r\nend\n";
    assert_eq!(place.run(&stderr).stdout, written, "byte for byte");
    let shown = on_terminal(place.command(&stderr)).replace("\r\n", "\n");
    assert_eq!(shown, "a\u{fffd}[2Jb\u{fffd}]0;title\u{fffd}c\u{fffd}d\u{fffd}2Je\u{fffd}f\nend\n");
    let followed = on_terminal(place.command(&["logs", &run, "--stream", "stderr", "--follow"]));
    assert_eq!(followed.replace("\r\n", "\n"), shown);
    for args in [
        &["logs", &run, "--json"][..],
        &["logs", &run, "--stream", "stdout"],
        &["history", &run],
        &["history", &run, "--json"],
        &["history", &run, "--ndjson"],
        &["explain", &run, "--path", "/data/text"],
        &["watch", &run],
        &["run", "nasty"],
        &["run", "nasty", "--json"],
        &["run", "\x1b[2Jnone"],
        &["logs", "\x1b[2Jnone"],
    ] {
        assert_controls_nothing(args, &on_terminal(place.command(args)));
    }
    let json: Value = serde_json::from_str(&place.run(&["logs", &run, "--json"]).stdout).unwrap();
    assert_eq!(json["stderr"], written, "nothing is changed in a pipe");
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn a_data_directory_that_cannot_be_looked_into_is_not_said_to_have_no_runs() {
    let place = Place::new();
    fs::write(place.path().join("file"), "").unwrap();
    for args in [&["runs"][..], &["show", "last"], &["result", "last"]] {
        let ran = place.run(&[args, &["--data-dir", "file/data"]].concat());
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("file/data cannot be read: Not a directory"), "{args:?}: {ran:?}");
    }
}

/// A file of 100 GB that takes no space would be hashed for minutes.
#[test]
fn an_export_that_is_too_long_is_refused_at_once() {
    let place = Place::new();
    File::create(place.path().join("long.zip")).unwrap().set_len(100_000_000_000).unwrap();
    for command in ["audit", "replay"] {
        let ran = place.run(&[command, "long.zip"]);
        assert_eq!(ran.code, Some(1), "{command}: {ran:?}");
        let told = "it has 100000000000 bytes, and an export has at most 68719476736 (64 GiB)";
        assert!(ran.stderr.contains(told), "{command}: {ran:?}");
    }
}

/// A program of the PATH that never answers must not keep the doctor.
#[test]
fn the_doctor_does_not_wait_for_a_python_that_never_answers() {
    let place = Place::new();
    let path = place.path().join("bin");
    fs::create_dir(&path).unwrap();
    for name in ["python3", "python", "uv"] {
        fs::write(path.join(name), "#!/bin/sh\nexec /bin/sleep 1000\n").unwrap();
        fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let ran = place.run_with(("PATH", path.to_str().unwrap()), &["doctor", "--json"]);
    let told = ran.json();
    let python = told["findings"].as_array().unwrap();
    let python = python.iter().find(|check| check["check"] == "python packages").unwrap();
    let message = python["message"].as_str().unwrap();
    assert!(message.starts_with("python3 did not answer within 5 s, so skills that declare packages fail"), "{told}");
}
