//! A real export, damaged in every way: the audit finds each.

use std::fs;
use std::io::{Cursor, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::audit::report::{Report, Trust};
use crate::audit::whole;
use crate::domain::cache_key::sha256_hex;
use crate::export::{About, CONTENTS, Contents, Export, Piece, write};
use crate::fcmp::{ChainHasher, PublicKey, Signer, read_envelope};

fn recorded(case: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("replay/compat").join(case).join("run.zip")).unwrap()
}

/// Audits bytes as an export, reusing one file.
struct Desk {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("run.zip"), _folder: folder }
    }

    fn audit(&self, bytes: &[u8]) -> Report {
        fs::write(&self.path, bytes).unwrap();
        whole::export(&self.path).unwrap_or_else(|failure| panic!("the audit broke off: {failure:?}"))
    }

    #[track_caller]
    fn finds(&self, bytes: &[u8], what: &str) {
        assert!(!self.audit(bytes).ok, "{what} was not found");
    }

    /// The rules that are broken, and in which files.
    fn found(&self, bytes: &[u8]) -> Vec<(&'static str, String)> {
        self.audit(bytes).violations.into_iter().map(|found| (found.rule, found.file)).collect()
    }
}

/// Where the contents of files lie; all else are headers, directory, end and seal.
fn contents(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).unwrap();
    (0..zip.len())
        .map(|at| {
            let file = zip.by_index_raw(at).unwrap();
            let from = usize::try_from(file.data_start().unwrap()).unwrap();
            from..from + usize::try_from(file.size()).unwrap()
        })
        .collect()
}

#[test]
fn every_byte_with_one_bit_flipped_and_every_bit_outside_the_contents_is_found() {
    let desk = Desk::new();
    let good = recorded("canceled");
    assert!(desk.audit(&good).ok);
    let contents = contents(&good);
    // In place: writing the whole file each time would be slow.
    let file = fs::File::options().write(true).open(&desk.path).unwrap();
    let put = |byte: usize, value: u8| file.write_all_at(&[value], byte as u64).unwrap();
    for (byte, value) in good.iter().enumerate() {
        let inside = contents.iter().any(|place| place.contains(&byte));
        // Deterministic; over the bytes of a file every bit position is used.
        let bits = if inside { byte % 8..byte % 8 + 1 } else { 0..8 };
        for bit in bits {
            put(byte, value ^ 1 << bit);
            assert_ne!(Export::open(&desk.path).unwrap().flaws(), [], "bit {bit} of byte {byte}");
        }
        // The audit reports every flaw of the zip; auditing the whole run each time would take minutes.
        if byte % 11 == 0 {
            assert!(!whole::export(&desk.path).unwrap().ok, "byte {byte}");
        }
        put(byte, *value);
    }
    assert!(whole::export(&desk.path).unwrap().ok);
}

#[test]
fn a_cut_or_lengthened_export_is_found() {
    let desk = Desk::new();
    let good = recorded("script-succeeded");
    for length in (0..good.len()).step_by(997).chain(good.len() - 120..good.len()) {
        desk.finds(&good[..length], &format!("a cut at {length}"));
    }
    desk.finds(&[&good[..], b"\n"].concat(), "one more byte at the end");
    desk.finds(&[b"\n", &good[..]].concat(), "one more byte at the begin");
    desk.finds(&[&good[..], &good].concat(), "the export twice");
}

fn unpacked(good: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut zip = ZipArchive::new(Cursor::new(good)).unwrap();
    let read = |at| {
        let mut file = zip.by_index(at).unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        (file.name().unwrap().into_owned(), bytes)
    };
    (0..ZipArchive::new(Cursor::new(good)).unwrap().len()).map(read).collect()
}

/// The export repacked by another program, with the files changed by `change` and a valid seal.
fn repacked(good: &[u8], change: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) -> Vec<u8> {
    let mut files = unpacked(good);
    change(&mut files);
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.set_raw_comment(ZipArchive::new(Cursor::new(good)).unwrap().comment().into()).unwrap();
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in files {
        writer.start_file(name, options).unwrap();
        writer.write_all(&bytes).unwrap();
    }
    sealed_anew(writer.finish().unwrap().into_inner())
}

fn sealed_anew(mut bytes: Vec<u8>) -> Vec<u8> {
    let sealed = bytes.len() - 64;
    let seal = sha256_hex(&bytes[..sealed]);
    bytes.truncate(sealed);
    bytes.extend_from_slice(seal.as_bytes());
    bytes
}

#[test]
fn an_export_that_another_program_packed_anew_is_found_even_with_a_true_seal() {
    let desk = Desk::new();
    let good = recorded("script-succeeded");
    desk.finds(&repacked(&good, |_| {}), "other headers");
    desk.finds(&repacked(&good, |files| files.swap(1, 2)), "two files that changed places");
    desk.finds(&repacked(&good, |files| files.rotate_right(1)), "the list of contents in front");
    desk.finds(&repacked(&good, |files| drop(files.remove(1))), "a missing file");
    desk.finds(&repacked(&good, |files| files[0].0 = "artifacts/other.md".to_owned()), "another name");
    desk.finds(&repacked(&good, |files| files.insert(0, ("artifacts/a".to_owned(), Vec::new()))), "a new file");
    desk.finds(&repacked(&good, |files| files.insert(0, ("../evil".to_owned(), Vec::new()))), "a file from outside");
}

/// The export as forged by someone who knows the format: files changed, hashes and seal recomputed.
fn forged(case: &str, change: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) -> Vec<u8> {
    let mut files = unpacked(&recorded(case));
    let (name, list) = files.pop().unwrap();
    assert_eq!(name, CONTENTS);
    let Contents { run_id, request_id, status, events, .. } = serde_json::from_slice(&list).unwrap();
    change(&mut files);
    let pieces = files.into_iter().map(|(name, bytes)| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        (name, Piece::whole(file).unwrap())
    });
    let mut out = Vec::new();
    write(About { run_id, request_id, status, events }, pieces.collect(), &mut out).unwrap();
    out
}

fn edit(files: &mut [(String, Vec<u8>)], name: &str, old: &str, new: &str) {
    let (_, bytes) = files.iter_mut().find(|(other, _)| other == name).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains(old), "{old:?} is not in {name}");
    *bytes = text.replacen(old, new, 1).into_bytes();
}

#[test]
fn a_forger_who_makes_all_hashes_anew_is_found_by_the_proof_in_the_log() {
    let desk = Desk::new();
    let rules = |change: fn(&mut Vec<(String, Vec<u8>)>)| desk.found(&forged("script-succeeded", change));
    let named = |rule, file: &str| vec![(rule, file.to_owned())];
    assert_eq!(rules(|_| {}), []);
    assert_eq!(
        rules(|files| edit(files, "artifacts/primes.md", "#", "-")),
        named("ARTIFACT", "artifacts/primes.md"),
        "an artifact"
    );
    assert_eq!(
        rules(|files| files.retain(|(name, _)| !name.starts_with("artifacts/"))),
        named("ARTIFACT", "artifacts/primes.md")
    );
    let stream = rules(|files| edit(files, "logs/stdout.txt", "primes", "crimes"));
    assert_eq!(stream[0], ("PROOF", "logs/stdout.txt".to_owned()));
    assert_eq!(
        rules(|files| edit(files, "logs/events.jsonl", "\"percent\":", "\"percent\": ")),
        named("PROOF", "logs/events.jsonl"),
        "an event"
    );
    assert_eq!(
        rules(|files| edit(files, "result/result.json", "\"succeeded\"", "\"failed\"")),
        named("RESULT", "result/result.json")
    );
    assert_eq!(
        rules(|files| edit(files, "result/validation.json", "\"stdout\"", "\"result_file\"")),
        named("RESULT", "result/validation.json")
    );
    assert_eq!(
        rules(|files| files.retain(|(name, _)| name != "logs/events.jsonl")),
        named("CONTENTS", "logs/events.jsonl")
    );
    let mut other = forged("script-succeeded", |_| {});
    let at = other.windows(12).rposition(|window| window == b"\"succeeded\",").unwrap();
    other[at + 1..at + 10].copy_from_slice(b"succeeDed");
    desk.finds(&sealed_anew(other), "a status in the list that is none");
}

#[test]
fn one_bit_in_any_file_of_a_proven_run_is_found_though_a_forger_makes_all_hashes_of_the_export_anew() {
    let desk = Desk::new();
    let files = unpacked(&recorded("signed"));
    let names: Vec<String> = files.into_iter().map(|(name, _)| name).filter(|name| name != CONTENTS).collect();
    for expected in ["input.json", "skill.json", "logs/prompt.txt", "raw/engine_output.txt", "result/validation.json"] {
        assert!(names.iter().any(|name| name == expected), "{expected} is not among {names:?}");
    }
    for name in names {
        for part in 1..4 {
            let bad = forged("signed", |files| {
                let (_, bytes) = files.iter_mut().find(|(other, _)| *other == name).unwrap();
                let at = bytes.len() * part / 4;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (at % 8);
                } else {
                    bytes.push(0);
                }
            });
            let found = desk.found(&bad);
            assert!(found.iter().any(|(_, file)| *file == name), "{name}: {found:?}");
        }
    }
}

#[test]
fn a_forger_who_makes_the_hash_chain_anew_is_found_by_the_key_alone() {
    const EVENTS: &str = "logs/events.jsonl";
    let desk = Desk::new();
    let audit = |export: &[u8], key: Option<PublicKey>| {
        let mut report = desk.audit(export);
        report.judge_signer(key);
        let rules: Vec<_> = report.violations.iter().map(|found| found.rule).collect();
        (report.trust, rules)
    };
    let good = recorded("signed");
    let signer = desk.audit(&good).signed_by.unwrap();
    assert_eq!(audit(&good, Some(signer)), (Trust::Trusted, vec![]));
    assert_eq!(audit(&good, None), (Trust::UnknownKey, vec![]));
    let other = Signer::from_seed(&[1; 32]).public_key();
    assert_eq!(audit(&good, Some(other)), (Trust::UnknownKey, vec!["SIGNATURE"]));

    let rechained = |keep_signature: bool| {
        forged("signed", |files| {
            let (_, log) = files.iter_mut().find(|(name, _)| name == EVENTS).unwrap();
            let text = String::from_utf8(log.clone()).unwrap();
            let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
            let last = lines.pop().unwrap();
            let run = read_envelope(last.trim_end().as_bytes()).unwrap().run_id;
            let chain = |lines: &[String]| {
                let mut hasher = ChainHasher::new(run);
                lines.iter().for_each(|line| hasher.push(line.as_bytes()));
                hasher.finish().unwrap().to_string()
            };
            let before = chain(&lines);
            let at = lines.iter().position(|line| line.contains("\"assistant.message.final\"")).unwrap();
            lines[at] = lines[at].replacen("\"text\":\"", "\"text\":\"not ", 1);
            let mut last = last.replacen(&before, &chain(&lines), 1);
            if !keep_signature {
                let from = last.rfind(",\"signature\":{").unwrap();
                let to = from + last[from..].find('}').unwrap() + 1;
                last.replace_range(from..to, "");
            }
            *log = [lines.concat(), last].concat().into_bytes();
        })
    };
    assert_eq!(audit(&rechained(true), None), (Trust::SelfConsistent, vec!["SIGNATURE"]), "its signature does not fit");
    assert_eq!(
        audit(&rechained(false), None),
        (Trust::SelfConsistent, vec![]),
        "nobody vouches for it, and that is said"
    );
    assert_eq!(audit(&rechained(false), Some(signer)), (Trust::SelfConsistent, vec!["SIGNATURE"]));
}
