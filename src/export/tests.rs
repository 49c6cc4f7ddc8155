//! Exports are read back unchanged; every change is found, and its place is reported.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use uuid::Uuid;

use super::names::name_objection;
use super::*;
use crate::domain::ids::{RequestId, RunId};
use crate::domain::statechart::Status;

fn about() -> About {
    let (run_id, request_id) = (RunId(Uuid::from_u128(1)), RequestId(Uuid::from_u128(2)));
    About { run_id, request_id, status: Status::Succeeded, events: 3 }
}

fn piece(bytes: &[u8]) -> Piece {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    Piece::whole(file).unwrap()
}

fn exported(files: &[(&str, &[u8])]) -> Vec<u8> {
    let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), piece(bytes))).collect();
    let mut out = Vec::new();
    let written = write(about(), files, &mut out).unwrap();
    assert_eq!(written.bytes, out.len() as u64);
    assert!(out.ends_with(written.seal.as_bytes()));
    out
}

fn small() -> Vec<u8> {
    exported(&[("skill.json", b"{}"), ("logs/events.jsonl", b"one\ntwo\n"), ("artifacts/a b.txt", b"")])
}

fn opened(bytes: &[u8]) -> Export {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zip");
    fs::write(&path, bytes).unwrap();
    assert!(Export::is_meant(&path));
    Export::open(&path).unwrap()
}

/// Everything wrong with an export, as rule, file and byte.
fn flaws(bytes: &[u8]) -> Vec<(&'static str, Option<String>, Option<u64>)> {
    let export = opened(bytes);
    let all = export.flaws().iter().cloned().chain(export.check_files().unwrap());
    all.map(|flaw| (flaw.rule, flaw.file, flaw.byte)).collect()
}

/// The export with a valid seal, so that only the other checks can find the change.
fn sealed_anew(mut bytes: Vec<u8>) -> Vec<u8> {
    let sealed = bytes.len() - layout::SEAL_DIGITS;
    let seal = crate::domain::cache_key::sha256_hex(&bytes[..sealed]);
    bytes.truncate(sealed);
    bytes.extend_from_slice(seal.as_bytes());
    bytes
}

#[test]
fn what_is_written_is_read_again_sorted_and_the_same_bytes_come_twice() {
    let export = opened(&small());
    assert_eq!(export.flaws(), []);
    assert_eq!(export.check_files().unwrap(), []);
    let names: Vec<&str> = export.names().collect();
    assert_eq!(names, ["artifacts/a b.txt", "logs/events.jsonl", "skill.json", CONTENTS]);
    let mut log = String::new();
    export.file(EVENTS).unwrap().reader().read_to_string(&mut log).unwrap();
    assert_eq!(log, "one\ntwo\n");
    let contents = export.contents().unwrap();
    assert_eq!((contents.run_id, contents.events, contents.files.len()), (about().run_id, 3, 3));
    assert_eq!(small(), small());
}

#[test]
fn other_zip_programs_read_it_and_find_its_checksums_right() {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(small())).unwrap();
    let mut log = String::new();
    zip.by_name(EVENTS).unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(log, "one\ntwo\n");
    assert!(zip.comment().starts_with(layout::COMMENT));
}

#[test]
fn every_single_flipped_bit_breaks_the_seal() {
    let good = small();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zip");
    fs::write(&path, &good).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    for (byte, value) in good.iter().enumerate() {
        for bit in 0..8 {
            file.write_all_at(&[value ^ 1 << bit], byte as u64).unwrap();
            assert_eq!(Export::open(&path).unwrap().flaws()[0].rule, "SEAL", "byte {byte}, bit {bit}");
        }
        file.write_all_at(&[*value], byte as u64).unwrap();
    }
}

#[test]
fn a_flipped_bit_is_found_and_placed_even_under_a_seal_made_anew() {
    let good = small();
    let sealed = good.len() - layout::SEAL_DIGITS;
    // The audit compares what the list says about the run with the log.
    let list = b"{\n  \"format\"";
    let list_at = good.windows(list.len()).position(|window| window == list).unwrap();
    let list_end = good.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    for byte in (0..list_at).chain(list_end..sealed) {
        let mut bad = good.clone();
        bad[byte] ^= 1 << (byte % 8);
        let found = flaws(&sealed_anew(bad));
        assert!(found.iter().any(|(_, _, at)| at.is_some()), "byte {byte}: {found:?}");
    }
}

#[test]
fn cut_and_lengthened_exports_are_none() {
    let good = small();
    for length in (0..good.len()).step_by(3) {
        assert_ne!(flaws(&good[..length]), [], "cut to {length}");
    }
    for more in [&b"\0"[..], b"more", &good] {
        assert_ne!(flaws(&[&good, more].concat()), []);
        assert_ne!(flaws(&[more, &good].concat()), []);
    }
}

#[test]
fn files_that_a_run_has_not_are_neither_written_nor_read() {
    for name in [
        "uploads/x",
        "../x",
        "artifacts/../x",
        "artifacts//x",
        "raw",
        "/etc/passwd",
        "logs/events.idx",
        "artifacts/..\\x",
        "artifacts/C:x",
        "artifacts/a\nb",
    ] {
        let refused = write(about(), vec![(name.to_owned(), piece(b""))], &mut Vec::new()).unwrap_err();
        assert!(matches!(refused, Error::Name { .. }), "{name}: {refused}");
    }
}

proptest! {
    #[test]
    fn any_contents_are_read_again_as_they_were(
        files in prop::collection::btree_map("(artifacts|raw)/[a-zä/]{0,5}[a-z]", any::<Vec<u8>>(), 0..6),
    ) {
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        prop_assume!(files.iter().all(|(name, _)| name_objection(name).is_none()));
        let export = opened(&exported(&files));
        prop_assert_eq!(export.flaws(), []);
        prop_assert_eq!(export.check_files().unwrap(), []);
        for (name, bytes) in files {
            prop_assert_eq!(export.file(name).unwrap().bytes(0, bytes.len() as u64).unwrap(), bytes);
        }
    }

    #[test]
    fn no_bytes_at_all_make_the_reader_break(bytes in any::<Vec<u8>>(), good in any::<bool>(), cut in 0..400_usize) {
        let tail = small();
        let bytes = if good { [&bytes[..], &tail[cut.min(tail.len())..]].concat() } else { bytes };
        if bytes != tail {
            prop_assert_ne!(flaws(&[&bytes[..], b""].concat()), []);
        }
    }
}
