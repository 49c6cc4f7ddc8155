//! The free space of the disk: looked at while an upload comes in, and part of being ready.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::skill::HELLO;
use crate::support::{LONG, Server, left_out};

/// A small file system of its own, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where this user may not mount one.
    fn mounted(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            other => {
                left_out::tell("a small file system cannot be mounted here", &format!("{other:?}"));
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn an_upload_that_would_fill_the_disk_is_stopped_while_it_comes_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let Some(_disk) = SmallDisk::mounted(&data, "160m") else { return };
    let server = Server::with(&[("data_dir", data.to_str().unwrap()), ("min_free_bytes", "100 MiB")]);
    let paper = json!({"type": "object", "properties": {"paper": {"type": "string"}}, "required": ["paper"]});
    server.skill("reader", HELLO, json!({"input": paper}));
    let (request, _) = server.create("reader");
    let large = vec![b'x'; 62 << 20];
    // The refusal comes while the upload is still being sent, so a client may meet a closed connection before the answer.
    let upload = |path: &str, part: &str| {
        let answer = || server.call("POST", path).parts(&[(part, &large)]).try_send();
        (0..20).find_map(|_| answer()).expect("an answer to one of twenty uploads")
    };
    let refused = upload(&format!("/v1/jobs/{request}/upload"), "file");
    assert_eq!(refused.refusal(), (507, "INSUFFICIENT_STORAGE".into()));
    assert_eq!(refused.json()["error"]["details"]["min_free_bytes"], json!(100 << 20));
    assert_eq!(upload("/v1/skill-packages/install", "file").refusal(), (507, "INSUFFICIENT_STORAGE".into()));
    let left: Vec<_> = std::fs::read_dir(data.join("tmp")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let job = server.get(&format!("/v1/jobs/{request}")).json();
    assert_eq!((&job["awaiting_upload"], &job["status"]), (&json!(true), &json!("queued")));
    // The last write to the file may still be under way when the answer comes.
    let limit = std::time::Instant::now() + LONG;
    while server.get("/readyz").status != 200 {
        assert!(std::time::Instant::now() < limit, "there is never room again");
    }
    drop(server);
}

#[test]
fn an_export_takes_no_more_of_the_disk_than_there_is_above_the_floor() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let Some(_disk) = SmallDisk::mounted(&data, "160m") else { return };
    let server = Server::with(&[("data_dir", data.to_str().unwrap()), ("min_free_bytes", "90 MiB")]);
    let large =
        "cat >/dev/null; head -c 40000000 /dev/zero > artifacts/large.bin; echo '{\"success\":true,\"data\":{}}'";
    server.skill("large", large, json!({"artifacts": [{"role": "a", "pattern": "*.bin", "required": true}]}));
    let (_, run) = server.create("large");
    let ended = server.events(&run, 0).until_end();
    assert_eq!(ended.last().unwrap()["type"], "conversation.completed", "{ended:?}");
    let refused = server.get(&format!("/v1/jobs/{run}/export"));
    assert_eq!(refused.refusal(), (507, "INSUFFICIENT_STORAGE".into()));
    assert_eq!(server.get("/readyz").status, 200, "nothing was written");
    drop(server);
}

#[test]
fn exports_that_nobody_reads_leave_half_of_the_free_disk_to_others_and_give_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let Some(_disk) = SmallDisk::mounted(&data, "400m") else { return };
    let server = Server::with(&[("data_dir", data.to_str().unwrap()), ("min_free_bytes", "100 MiB")]);
    let large =
        "cat >/dev/null; head -c 30000000 /dev/urandom > artifacts/large.bin; echo '{\"success\":true,\"data\":{}}'";
    server.skill("large", large, json!({"artifacts": [{"role": "a", "pattern": "*.bin", "required": true}]}));
    let (_, run) = server.create("large");
    let ended = server.events(&run, 0).until_end();
    assert_eq!(ended.last().unwrap()["type"], "conversation.completed", "{ended:?}");
    let path = format!("/v1/jobs/{run}/export");
    // Whoever asks reads no more than the status of the answer.
    let ask = || {
        let mut connection = TcpStream::connect(server.address).unwrap();
        write!(connection, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut status = [0; 12];
        connection.read_exact(&mut status).unwrap();
        (connection, String::from_utf8_lossy(&status).into_owned())
    };
    let mut unread = Vec::new();
    let refused = loop {
        let (connection, status) = ask();
        if status != "HTTP/1.1 200" {
            break status;
        }
        unread.push(connection);
        assert!(unread.len() < 8, "exports take more than half of what is free");
    };
    assert_eq!(refused, "HTTP/1.1 503");
    assert!(unread.len() >= 2, "{}", unread.len());
    assert_eq!(server.get("/readyz").status, 200, "there is room for runs");
    drop(unread);
    let limit = std::time::Instant::now() + LONG;
    while ask().1 != "HTTP/1.1 200" {
        assert!(std::time::Instant::now() < limit, "there is never room again");
    }
    drop(server);
}

#[test]
fn a_bundle_takes_no_more_of_the_disk_than_there_is_above_the_floor() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let Some(_disk) = SmallDisk::mounted(&data, "160m") else { return };
    let server = Server::with(&[("data_dir", data.to_str().unwrap()), ("min_free_bytes", "90 MiB")]);
    let large =
        "cat >/dev/null; head -c 40000000 /dev/urandom > artifacts/large.bin; echo '{\"success\":true,\"data\":{}}'";
    server.skill("large", large, json!({"artifacts": [{"role": "a", "pattern": "*.bin", "required": true}]}));
    let (_, run) = server.create("large");
    let ended = server.events(&run, 0).until_end();
    assert_eq!(ended.last().unwrap()["type"], "conversation.completed", "{ended:?}");
    for _ in 0..2 {
        let refused = server.get(&format!("/v1/jobs/{run}/bundle"));
        assert_eq!(refused.refusal(), (507, "INSUFFICIENT_STORAGE".into()));
    }
    let left: Vec<_> = std::fs::read_dir(data.join("runs").join(&run).join("bundle")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(server.get("/readyz").status, 200, "what was written is gone");
    drop(server);
}

#[test]
fn a_file_longer_than_any_disk_is_not_in_an_export() {
    let server = Server::with(&[("limits.file_bytes", "1024 GiB")]);
    let sparse = "cat >/dev/null; mkdir -p raw; truncate -s 1023G raw/sparse; echo x > raw/small; echo '{\"success\":true,\"data\":{}}'";
    server.skill("sparse", sparse, json!({}));
    let (_, run) = server.finished("sparse");
    let export = server.get(&format!("/v1/jobs/{run}/export"));
    assert_eq!(export.status, 200);
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(export.body)).unwrap();
    assert!(zip.by_name("raw/small").is_ok() && zip.by_name("raw/sparse").is_err());
}

#[test]
fn a_service_below_its_floor_of_free_space_is_not_ready_and_lives() {
    let server = Server::with(&[("min_free_bytes", "1000000000000")]);
    for query in ["", "?probe=1", "?x=%20&x"] {
        let answer = server.get(&format!("/readyz{query}"));
        assert_eq!(answer.refusal(), (503, "INSUFFICIENT_STORAGE".into()));
        let error = answer.json()["error"].clone();
        assert_eq!(error["details"]["min_free_bytes"], json!(1_000_000_000_000_u64));
        let mounted = error["details"]["file_system"].as_str().unwrap();
        assert!(server.data().canonicalize().unwrap().starts_with(mounted), "{error}");
        assert!(error["message"].as_str().unwrap().contains(&format!("the file system at {mounted} has ")), "{error}");
        assert_eq!(server.get(&format!("/healthz{query}")).status, 200);
    }
    server.drain();
    assert_eq!(server.get("/readyz").refusal(), (503, "SHUTTING_DOWN".into()));
}
