//! Files from outside: uploaded zips, exports that somebody wants checked, raw logs of any content.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::ways::{about, way};
use crate::export::Export;
use crate::workspace::{Archive, RangeError, UploadError, UploadLimits, read_range};

pub(super) const ZIP: &[&str] = &[
    "PK\u{1}\u{2}",
    "PK\u{3}\u{4}",
    "PK\u{5}\u{6}",
    "PK\u{6}\u{6}",
    "PK\u{6}\u{7}",
    "../",
    "/",
    "\\",
    "a/",
    "doc",
    "\0",
    "\u{7f}",
    "events.jsonl",
    "contents.json",
    "result/",
    "sha256",
];

/// A folder in memory, where there is one.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn write(path: &Path, bytes: &[u8]) {
    File::create(path).and_then(|mut file| file.write_all(bytes)).unwrap();
}

pub(super) fn zip(bytes: &[u8]) -> u64 {
    let folder = folder();
    let (zip, out) = (folder.path().join("in.zip"), folder.path().join("out"));
    write(&zip, bytes);
    fs::create_dir(&out).unwrap();
    let limits = UploadLimits {
        max_upload_bytes: 1 << 20,
        max_unpacked_bytes: 1 << 20,
        max_entries: 50,
        max_file_bytes: 1 << 19,
        max_ratio: 50,
        ratio_from_bytes: 1 << 16,
        min_free_bytes: 0,
    };
    let unpacked = Archive::open(&zip, &limits).and_then(|archive| archive.unpack(&out));
    // Whatever came of it, nothing is outside.
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["in.zip", "out"]);
    match unpacked {
        Ok(files) => {
            let sizes = files.iter().map(|file| {
                let found = fs::symlink_metadata(out.join(&file.name)).unwrap();
                assert!(found.is_file() && found.len() == file.size, "{file:?}");
                about(found.len() as usize)
            });
            way(sizes.collect::<Vec<_>>())
        }
        Err(UploadError::InvalidZip { reason }) => {
            way(reason.split(' ').take(6).map(str::to_owned).collect::<Vec<_>>())
        }
        Err(other) => way(std::mem::discriminant(&other)),
    }
}

pub(super) fn export(bytes: &[u8]) -> u64 {
    let folder = folder();
    let path = folder.path().join("run.zip");
    write(&path, bytes);
    let export = Export::open(&path).unwrap();
    let mut rules: Vec<&str> = export.flaws().iter().map(|flaw| flaw.rule).collect();
    rules.extend(export.check_files().unwrap().iter().map(|flaw| flaw.rule));
    let names = export.names().count();
    for name in export.names() {
        let _ = export.file(name).map(|piece| piece.digest(|_| Ok(())));
    }
    // The run in it as a whole: an audit comes to its end, whatever it finds.
    let report = crate::audit::export(&path).unwrap();
    assert!(report.ok == report.violations.is_empty(), "{report:?}");
    rules.extend(report.violations.iter().map(|violation| violation.rule));
    rules.sort_unstable();
    rules.dedup();
    way((rules, about(names)))
}

/// A log of any bytes, asked for the range that its first bytes say.
pub(super) fn log_range(bytes: &[u8]) -> u64 {
    let folder = folder();
    let path = folder.path().join("stdout.txt");
    let (head, log) = bytes.split_at(bytes.len().min(2));
    write(&path, log);
    let from = u64::from(head.first().copied().unwrap_or(0));
    for to in [None, head.last().map(|to| u64::from(*to)), Some(u64::MAX)] {
        match read_range(folder.path(), &path, from, to) {
            Ok(range) => {
                assert!(
                    range.byte_from <= from && range.byte_to <= log.len() as u64 && range.byte_from <= range.byte_to
                );
                assert_eq!(range.total_bytes, log.len() as u64);
            }
            Err(RangeError::Reversed { byte_to, .. }) => assert!(byte_to < from),
            Err(RangeError::BeyondEnd { .. }) => assert!(from > log.len() as u64),
            Err(other) => panic!("{other}"),
        }
    }
    way((about(log.len()), std::str::from_utf8(log).is_ok(), from <= log.len() as u64))
}
