//! The corpus of hostile zips, through both routes that take one: each is refused with its code and leaves nothing.

use serde_json::json;

use super::{install, package, tree};
use crate::support::Server;
use crate::support::zips::{RawEntry, deflated, raw_zip, zip64};

/// What is wrong, the zip, and the codes it may be refused with. `top` stands before every name.
fn corpus(top: &str) -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    const UNSAFE: &[&str] = &["UNSAFE_PATH"];
    const INVALID: &[&str] = &["INVALID_ZIP"];
    const LARGE: &[&str] = &["PAYLOAD_TOO_LARGE"];
    const LIE: &[&str] = &["INVALID_ZIP", "PAYLOAD_TOO_LARGE"];
    let name = format!("{top}a");
    let named = |name: &str| raw_zip(&[RawEntry::file(name, b"x")]);
    let pair = |one: &str, other: &str| {
        raw_zip(&[RawEntry::file(format!("{top}{one}"), b"1"), RawEntry::file(format!("{top}{other}"), b"2")])
    };
    let of_kind = |unix_mode: u32| raw_zip(&[RawEntry { unix_mode, ..RawEntry::file(&name, b"/etc/passwd") }]);
    let honest = named(&name);
    let flat = |count: usize| {
        let entries: Vec<RawEntry> = (0..count).map(|n| RawEntry::file(format!("{top}{n}"), b"")).collect();
        raw_zip(&entries)
    };
    let ladder: Vec<RawEntry> = (1..=300)
        .map(|depth| RawEntry { unix_mode: 0o040_755, ..RawEntry::file(format!("{top}{}", "d/".repeat(depth)), b"") })
        .collect();
    let bytes = (honest.len() - 22 - 30 - name.len() - 1) as u64;
    let offset = honest.len() as u64 - 22 - bytes;
    let file = || RawEntry::file(&name, b"x");
    let mut fewer = pair("a", "b");
    let count = fewer.len() - 22 + 8;
    fewer[count..count + 4].copy_from_slice(&[1, 0, 1, 0]);
    // Its comment is another zip, behind which a byte follows: readers differ on which of the two ends counts.
    let mut another = honest.clone();
    let comment = another.len() - 2;
    let hidden = [named(&format!("{top}b")), vec![0]].concat();
    another.splice(comment.., (hidden.len() as u16).to_le_bytes().into_iter().chain(hidden));
    vec![
        ("slip", named(&format!("{top}../../../evil")), UNSAFE),
        ("slip at the top", named("../evil"), UNSAFE),
        ("absolute", named("/tmp/evil"), UNSAFE),
        ("drive letter", named("C:/evil"), UNSAFE),
        ("NUL", named(&format!("{top}a\0b")), UNSAFE),
        ("backslash", named(&format!("{top}..\\evil")), UNSAFE),
        ("link", of_kind(0o120_777), UNSAFE),
        ("character device", of_kind(0o020_644), UNSAFE),
        ("block device", of_kind(0o060_644), UNSAFE),
        ("pipe", of_kind(0o010_644), UNSAFE),
        ("socket", of_kind(0o140_644), UNSAFE),
        ("duplicate", pair("a", "a"), UNSAFE),
        ("duplicate by case", pair("a", "A"), UNSAFE),
        ("duplicate by case beyond ASCII", pair("straße", "STRASSE"), UNSAFE),
        ("a file that is a folder, too", pair("a", "a/b"), UNSAFE),
        ("bomb by ratio", deflated(&[(&name, &vec![0; 12 << 20])]), LARGE),
        ("bomb by entries", flat(10_001), LARGE),
        ("encrypted", raw_zip(&[RawEntry { flags: 1, ..file() }]), INVALID),
        ("truncated in its directory", honest[..honest.len() - 30].to_vec(), INVALID),
        ("truncated in its end", honest[..honest.len() - 1].to_vec(), INVALID),
        ("truncated at its head", honest[10..].to_vec(), INVALID),
        ("no zip", b"PK\x03\x04 not at all".to_vec(), INVALID),
        ("empty", Vec::new(), INVALID),
        ("a wrong checksum", raw_zip(&[RawEntry { crc: Some(7), ..file() }]), INVALID),
        ("a wrong length", raw_zip(&[RawEntry { declared_size: Some(7), ..file() }]), INVALID),
        ("another name inside", raw_zip(&[RawEntry { local_name: Some(b"../evil".to_vec()), ..file() }]), INVALID),
        ("4 GiB declared", raw_zip(&[RawEntry { declared_size: Some(u32::MAX), ..file() }]), LIE),
        ("fewer entries than there are", fewer, INVALID),
        ("another zip as its comment", another, INVALID),
        ("ZIP64: more entries than can be", zip64(file(), u64::MAX, bytes, offset, None), LIE),
        ("ZIP64: more entries than there are", zip64(file(), 10_000, bytes, offset, None), LIE),
        ("ZIP64: a directory beyond the end", zip64(file(), 1, bytes, u64::MAX - 1, None), LIE),
        ("ZIP64: a directory without end", zip64(file(), 1, u64::MAX, offset, None), LIE),
        ("ZIP64: an end beyond the end", zip64(file(), 1, bytes, offset, Some(1 << 60)), LIE),
        ("ZIP64: an end that is none", zip64(file(), 1, bytes, offset, Some(0)), LIE),
        ("10 000 nested folders", named(&format!("{top}{}a", "d/".repeat(10_000))), UNSAFE),
        ("a ladder of nested folders", raw_zip(&ladder), UNSAFE),
    ]
}

fn check(server: &Server, path: &str, top: &str) {
    let send = |zip: &[u8]| server.call("POST", path).parts(&[("file", zip)]).send();
    // The first that is unpacked may make the folders that are there for all.
    send(&deflated(&[(&format!("{top}a"), &vec![0; 12 << 20])]));
    let before = tree(server.folder.path());
    for (what, zip, codes) in corpus(top) {
        let answer = send(&zip);
        assert!(answer.status >= 400, "{what}: {}", answer.text());
        let (status, code) = answer.refusal();
        assert!(codes.contains(&code.as_str()), "{what}: {}", answer.text());
        assert_eq!(status, if code == "PAYLOAD_TOO_LARGE" { 413 } else { 400 }, "{what}");
        assert_eq!(tree(server.folder.path()), before, "{what} left something");
    }
}

#[test]
fn no_hostile_zip_is_installed_and_none_leaves_a_trace() {
    let server = Server::start();
    check(&server, "/v1/skill-packages/install", "demo/");
    assert_eq!(install(&server, &package("1.0.0"))["status"], "succeeded");
}

#[test]
fn no_hostile_zip_is_uploaded_and_none_leaves_a_trace() {
    let server = Server::start();
    let input = json!({"type": "object", "properties": {"a": {}}, "required": ["a"]});
    let sh = "cat >/dev/null\ncat uploads/a >&2\necho '{\"success\":true,\"data\":{}}'\n";
    server.skill("files", sh, json!({"input": input}));
    let (_, run) = server.create("files");
    let path = format!("/v1/jobs/{run}/upload");
    check(&server, &path, "");
    assert_eq!(server.get(&format!("/v1/jobs/{run}")).json()["awaiting_upload"], true);
    assert_eq!(server.call("POST", &path).parts(&[("file", &deflated(&[("a", b"good")]))]).send().status, 200);
    server.finish(&run);
}
