//! A proper end of a feed means that its end was reached, however slowly it is read and whatever becomes of the run meanwhile.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::json;

use super::{Damaged, EVENTS, sealed};
use crate::support::{LONG, Server};

/// Some megabytes of raw text, more than sockets hold.
const LONG_LOG: &str = "cat >/dev/null\nawk 'BEGIN { for (i = 0; i < 6000; i++) printf \"%01000d\\n\", i }' >&2\n\
    echo '{\"success\":true,\"action\":\"run\",\"data\":{}}'\n";

/// What a reader gets who reads a little, and the rest once `meanwhile` is done.
fn slowly(server: &Server, request: &str, meanwhile: impl FnOnce()) -> Vec<u8> {
    let mut connection = TcpStream::connect(server.address).unwrap();
    connection.set_read_timeout(Some(LONG)).unwrap();
    write!(connection, "GET {request} HTTP/1.1\r\nhost: {}\r\naccept: application/x-ndjson\r\n\r\n", server.address)
        .unwrap();
    let mut read = vec![0; 4096];
    connection.read_exact(&mut read).unwrap();
    meanwhile();
    let mut rest = Vec::new();
    let mut chunk = [0; 64 * 1024];
    // A connection that is kept open after a proper end is not waited for.
    while !rest.ends_with(b"\r\n0\r\n\r\n") {
        match connection.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(count) => rest.extend_from_slice(&chunk[..count]),
        }
    }
    read.extend(rest);
    read
}

#[test]
fn a_slow_reader_of_a_run_that_is_cleaned_up_gets_all_of_it_or_is_cut_off() {
    for in_file in [true, false] {
        let server = Server::with(&[("seal_grace_seconds", if in_file { "0" } else { "600" })]);
        server.skill("long", LONG_LOG, json!({}));
        for feed in ["events/history", "events"] {
            let run = if in_file {
                sealed(&server, "long")
            } else {
                let (_, run) = server.create_with(&json!({"skill_id": "long", "runtime_options": {"no_cache": true}}));
                server.finish(&run);
                run
            };
            let request = format!("/v1/jobs/{run}/{feed}");
            let undisturbed = slowly(&server, &request, || {});
            let last: &[u8] = b"\"type\":\"conversation.completed\"";
            let has_last = |answer: &[u8]| answer.windows(last.len()).any(|window| window == last);
            assert!(undisturbed.ends_with(b"\r\n0\r\n\r\n") && has_last(&undisturbed), "{feed}");
            let answer = slowly(&server, &request, || {
                assert_eq!(server.post("/v1/jobs/cleanup", &json!({})).json()["runs_deleted"], 1);
            });
            let ended = answer.ends_with(b"\r\n0\r\n\r\n");
            assert_eq!(ended, has_last(&answer), "{feed}: a proper end means that the end was reached");
            assert!(answer.len() > 4096, "{feed}");
        }
    }
}

#[test]
fn a_slow_reader_of_a_log_that_is_damaged_meanwhile_is_cut_off() {
    let server = Server::with(&[("seal_grace_seconds", "0")]);
    server.skill("long", &LONG_LOG.replace("6000", "12000"), json!({}));
    // Each where a reader who began comes last.
    let damages: [fn(&Path, &[u8]); 2] = [
        |log, whole| fs::write(log, &whole[..whole.len() / 8 * 7]).unwrap(),
        |log, whole| {
            fs::write(log, [&whole[..whole.len() / 8 * 7], b"#", &whole[whole.len() / 8 * 7 + 1..]].concat()).unwrap()
        },
    ];
    for damage in damages {
        for feed in ["events/history", "events"] {
            let (_, run) = server.create_with(&json!({"skill_id": "long", "runtime_options": {"no_cache": true}}));
            // Nobody follows it: what is encoded for one reader is kept for the next.
            server.watch_leave(&run).wait(&server);
            let log = server.run_dir(&run).join(EVENTS);
            let mut damaged = None;
            let answer = slowly(&server, &format!("/v1/jobs/{run}/{feed}"), || {
                damaged = Some(Damaged::by(log, damage));
            });
            drop(damaged);
            assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > 4096, "{feed}");
            let ended = answer.ends_with(b"\r\n0\r\n\r\n");
            assert!(!ended, "{feed}: what broke off after {} bytes has no proper end", answer.len());
        }
    }
}

/// Leaves files that are longer than what sockets hold.
const LONG_FILES: &str = "cat >/dev/null\nhead -c 24000000 /dev/urandom > artifacts/noise.bin\n\
    cat artifacts/noise.bin | base64 >&2\necho '{\"success\":true,\"action\":\"run\",\"data\":{}}'\n";

#[test]
fn a_slow_reader_of_a_file_of_a_run_that_is_cleaned_up_gets_all_of_it_or_is_cut_off() {
    let server = Server::with(&[("seal_grace_seconds", "0")]);
    server.skill("files", LONG_FILES, json!({"artifacts": [{"role": "a", "pattern": "*.bin", "required": true}]}));
    for file in ["artifacts/artifacts/noise.bin", "bundle", "export"] {
        let run = sealed(&server, "files");
        let request = format!("/v1/jobs/{run}/{file}");
        let (mut told, mut came) = (0, 0);
        let mut connection = TcpStream::connect(server.address).unwrap();
        connection.set_read_timeout(Some(LONG)).unwrap();
        write!(connection, "GET {request} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address).unwrap();
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = connection.read(&mut chunk) {
            if told == 0 {
                let text = String::from_utf8_lossy(&chunk[..count]).to_lowercase();
                assert!(text.starts_with("http/1.1 200"), "{text}");
                let head = text.find("\r\n\r\n").unwrap() + 4;
                told = text.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
                came = count - head;
                assert_eq!(server.post("/v1/jobs/cleanup", &json!({})).json()["runs_deleted"], 1);
                assert_eq!(server.get(&format!("/v1/jobs/{run}")).status, 404);
            } else {
                came += count;
            }
        }
        assert!(told > 23_000_000, "{file}: {told}");
        assert_eq!(came, told, "{file}: whoever has begun reads to the end");
    }
}

#[test]
fn a_slow_reader_of_a_run_whose_events_leave_the_store_meanwhile_gets_all_of_it() {
    let server = Server::with(&[("seal_grace_seconds", "2")]);
    server.skill("long", LONG_LOG, json!({}));
    for feed in ["events/history", "events"] {
        let (_, run) = server.create_with(&json!({"skill_id": "long", "runtime_options": {"no_cache": true}}));
        let left = server.watch_leave(&run);
        server.finish(&run);
        let request = format!("/v1/jobs/{run}/{feed}");
        let answer = slowly(&server, &request, || left.wait(&server));
        let undisturbed = slowly(&server, &request, || {});
        let body = |answer: &[u8]| {
            let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
            let whole = dechunked(&answer[head + 4..]);
            // Signs of life between events are not theirs.
            let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b":"));
            lines.map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        assert!(answer.ends_with(b"\r\n0\r\n\r\n"), "{feed}");
        assert!(body(&answer) == body(&undisturbed), "{feed}: not the same as after the seal");
    }
}

/// A body that came in chunks.
fn dechunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
}
