//! Uploads from strangers: what is taken, what is refused, and that a refusal leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use skill_runner::workspace::{
    Archive, Manifest, Sent, SentPart, Staged, UploadError, UploadFields, UploadLimits, UploadedFile, promote_uploads,
    stage_uploads,
};

use crate::support::zips::{RawEntry, deflated, end_record, raw_zip, zip64};

fn small_limits() -> UploadLimits {
    UploadLimits {
        max_upload_bytes: 1_000_000,
        max_unpacked_bytes: 4_000_000,
        max_entries: 20,
        max_file_bytes: 3_000_000,
        max_ratio: 50,
        ratio_from_bytes: 100_000,
        min_free_bytes: 0,
    }
}

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("requests")).unwrap();
        Self { folder }
    }

    fn staging(&self) -> PathBuf {
        self.folder.path().join("requests/r1/uploads")
    }

    fn upload(&self, zip: &[u8], fields: &[&str], limits: &UploadLimits) -> Result<Manifest, UploadError> {
        self.send(Some(zip), &[], &fields_of(fields, None), limits).map(|staged| staged.manifest)
    }

    /// A zip, and files by themselves: field, name and content.
    fn send(
        &self,
        zip: Option<&[u8]>,
        parts: &[(&str, &str, &[u8])],
        fields: &UploadFields,
        limits: &UploadLimits,
    ) -> Result<Staged, UploadError> {
        let path = self.folder.path().join("upload.zip");
        let kept = |index: usize, (field, file_name, content): &(&str, &str, &[u8])| {
            let path = self.folder.path().join(format!("part-{index}"));
            fs::write(&path, content).unwrap();
            SentPart { field: (*field).to_owned(), file_name: Some((*file_name).to_owned()), path }
        };
        let parts = parts.iter().enumerate().map(|(index, part)| kept(index, part)).collect();
        let zip = zip.map(|zip| {
            fs::write(&path, zip).unwrap();
            path.clone()
        });
        stage_uploads(&Sent { zip, parts }, &self.staging(), fields, limits)
    }

    fn refusal(zip: &[u8]) -> (&'static str, String) {
        let desk = Self::new();
        let error = desk.upload(zip, &["a", "b", "A", "dir/"], &small_limits()).unwrap_err();
        assert_eq!(desk.left_behind(), Vec::<PathBuf>::new(), "after {error}");
        (error.code().as_str(), error.to_string())
    }

    fn left_behind(&self) -> Vec<PathBuf> {
        list(&self.folder.path().join("requests"))
    }
}

fn fields_of(named: &[&str], rest: Option<&str>) -> UploadFields {
    let named = named.iter().map(|field| (*field).to_owned()).collect();
    UploadFields { named, rest: rest.map(str::to_owned) }
}

fn list(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn uploaded(name: &str, content: &[u8]) -> UploadedFile {
    let sha256 = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    UploadedFile { name: name.into(), size: content.len() as u64, sha256, file_name: None }
}

#[test]
fn uploads_are_staged_under_their_request_and_promoted_to_the_run() {
    let desk = Desk::new();
    let zip = deflated(&[("b", b"second"), ("a", b"first"), ("empty", b"")]);
    let manifest = desk.upload(&zip, &["a", "b", "empty", "not-given"], &small_limits()).unwrap();
    let expected = vec![uploaded("a", b"first"), uploaded("b", b"second"), uploaded("empty", b"")];
    assert_eq!(manifest, Manifest { files: expected });

    let run = desk.folder.path().join("run");
    fs::create_dir(&run).unwrap();
    promote_uploads(&desk.folder.path().join("nothing-staged"), &run.join("uploads")).unwrap();
    assert!(!run.join("uploads").exists());
    promote_uploads(&desk.staging(), &run.join("uploads")).unwrap();
    assert_eq!(fs::read(run.join("uploads/b")).unwrap(), b"second");
    assert_eq!(desk.left_behind(), Vec::<PathBuf>::new());
    promote_uploads(&desk.staging(), &run.join("uploads")).unwrap();
    assert_eq!(fs::read(run.join("uploads/a")).unwrap(), b"first");
}

#[test]
fn the_manifest_hash_depends_on_names_and_contents_and_not_on_the_zip() {
    let hash = |zip: &[u8]| Desk::new().upload(zip, &["a", "b"], &small_limits()).unwrap().sha256();
    let first = hash(&deflated(&[("a", b"1"), ("b", b"2")]));
    assert_eq!(first, hash(&raw_zip(&[RawEntry::file("b", b"2"), RawEntry::file("a", b"1")])));
    assert_ne!(first, hash(&deflated(&[("a", b"2"), ("b", b"1")])));
    let written = format!(
        r#"[{{"name":"a","size":1,"sha256":"{}"}},{{"name":"b","size":1,"sha256":"{}"}}]"#,
        uploaded("a", b"1").sha256,
        uploaded("b", b"2").sha256
    );
    assert_eq!(first, uploaded("", written.as_bytes()).sha256);
}

#[test]
fn a_second_upload_replaces_what_was_staged_and_a_refused_one_does_not() {
    let desk = Desk::new();
    desk.upload(&deflated(&[("a", b"old"), ("b", b"old")]), &["a", "b"], &small_limits()).unwrap();
    desk.upload(&deflated(&[("a", b"new")]), &["a", "b"], &small_limits()).unwrap();
    desk.upload(b"rubbish", &["a", "b"], &small_limits()).unwrap_err();
    assert_eq!(list(&desk.folder.path().join("requests/r1")), [desk.staging()]);
    assert_eq!(list(&desk.staging()), [desk.staging().join("a")]);
    assert_eq!(fs::read(desk.staging().join("a")).unwrap(), b"new");
}

#[test]
fn an_entry_below_one_folder_or_with_an_extension_is_its_fields_file_and_keeps_its_name_in_the_manifest() {
    let desk = Desk::new();
    let zip = deflated(&[
        ("pack/a.txt", b"1"),
        ("pack/b", b"2"),
        ("pack/more/a", b"3"),
        ("readme", b"4"),
        ("__MACOSX/pack/._a.txt", b"5"),
        ("pack/.DS_Store", b"6"),
    ]);
    let staged = desk.send(Some(&zip), &[], &fields_of(&["a", "b"], None), &small_limits()).unwrap();
    let a = UploadedFile { file_name: Some("a.txt".into()), ..uploaded("a", b"1") };
    assert_eq!(staged.manifest, Manifest { files: vec![a, uploaded("b", b"2")] });
    assert_eq!(staged.ignored, ["pack/more/a", "readme"]);
    let mut left = list(&desk.staging());
    left.sort();
    assert_eq!(left, [desk.staging().join("a"), desk.staging().join("b")]);
    assert_eq!(fs::read(desk.staging().join("a")).unwrap(), b"1");
}

#[test]
fn files_come_without_a_zip_beside_one_and_for_a_field_that_takes_the_rest() {
    let desk = Desk::new();
    let fields = fields_of(&["a"], Some("files"));
    let zip = deflated(&[("notes/x.md", b"from the zip")]);
    let parts: [(&str, &str, &[u8]); 3] =
        [("a", "numbers.csv", b"1,2"), ("files", "C:\\docs\\y.md", b"y"), ("files", "z.md", b"")];
    let staged = desk.send(Some(&zip), &parts, &fields, &small_limits()).unwrap();
    let expected = vec![
        UploadedFile { file_name: Some("numbers.csv".into()), ..uploaded("a", b"1,2") },
        uploaded("notes/x.md", b"from the zip"),
        UploadedFile { file_name: Some("C:\\docs\\y.md".into()), ..uploaded("y.md", b"y") },
        uploaded("z.md", b""),
    ];
    assert_eq!(staged, Staged { manifest: Manifest { files: expected }, ignored: vec![] });
    assert_eq!(fs::read(desk.staging().join("notes/x.md")).unwrap(), b"from the zip");
}

#[test]
fn parts_that_are_for_no_field_twice_the_same_unsafe_or_too_large_are_refused_and_leave_nothing() {
    let fields = fields_of(&["a", "b"], Some("files"));
    let refused = |zip: Option<&[u8]>, parts: &[(&str, &str, &[u8])]| {
        let desk = Desk::new();
        let error = desk.send(zip, parts, &fields, &small_limits()).unwrap_err();
        assert_eq!(desk.left_behind(), Vec::<PathBuf>::new(), "after {error}");
        (error.code().as_str(), error.to_string())
    };
    let zip = deflated(&[("a.txt", b"1")]);
    assert_eq!(
        refused(None, &[("c", "c.txt", b"1")]),
        ("UNKNOWN_INPUT_KEY", "the skill has no file input \"c\"; it has a, b, files".to_owned())
    );
    assert_eq!(
        refused(Some(&zip), &[("a", "other.txt", b"1")]),
        ("INVALID_REQUEST", "both \"a.txt\" and \"other.txt\" are the file of \"a\"; send one of them".to_owned())
    );
    assert_eq!(refused(None, &[("b", "x", b"1"), ("b", "y", b"2")]).0, "INVALID_REQUEST");
    assert_eq!(refused(None, &[("files", "x", b"1"), ("files", "dir/x", b"2")]).0, "INVALID_REQUEST");
    assert_eq!(refused(None, &[("files", "..", b"1")]).0, "UNSAFE_PATH");
    assert_eq!(refused(None, &[("files", "a/", b"1")]).0, "UNSAFE_PATH");
    assert_eq!(refused(None, &[("a", "x", &[0; 600_000]), ("b", "y", &[0; 600_000])]).0, "PAYLOAD_TOO_LARGE");
}

#[test]
fn bytes_that_are_no_zip_are_refused() {
    for bytes in [&b""[..], b"PK", b"hello, not a zip", &[0; 5000], b"PK\x05\x06", &end_record(1, 46, 0)] {
        let (code, message) = Desk::refusal(bytes);
        assert_eq!(code, "INVALID_ZIP", "{message}");
    }
}

#[test]
fn a_zip_cut_at_any_byte_is_refused_and_leaves_nothing() {
    let zip = deflated(&[("a", &[b'a'; 300]), ("b", b"second")]);
    for length in 0..zip.len() {
        assert_eq!(Desk::refusal(&zip[..length]).0, "INVALID_ZIP", "cut at {length}");
    }
}

#[test]
fn a_zip_with_one_changed_byte_is_refused_or_unpacks_to_the_same_files() {
    let files: [(&str, &[u8]); 2] = [("a", b"some text, some text, some text"), ("b", b"second")];
    let zip = deflated(&files);
    let whole = Desk::new().upload(&zip, &["a", "b"], &small_limits()).unwrap();
    for at in 0..zip.len() {
        let mut changed = zip.clone();
        changed[at] ^= 0x41;
        let desk = Desk::new();
        match desk.upload(&changed, &["a", "b"], &small_limits()) {
            Ok(manifest) => assert_eq!(manifest, whole, "byte {at}"),
            Err(error) => {
                assert!(!matches!(error, UploadError::Io(_)), "byte {at}: {error:?}");
                assert_eq!(desk.left_behind(), Vec::<PathBuf>::new(), "byte {at}");
            }
        }
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let (long, deep) = ("x".repeat(300), "d/".repeat(40));
    for name in [
        &b"../a"[..],
        b"dir/../../a",
        b"/etc/passwd",
        b"C:/a",
        b"C:a",
        b"..\\a",
        b"dir\\a",
        b"a\0b",
        b"a\nb",
        b"a\x1b[2J",
        b"",
        b".",
        b"./a",
        b"dir//a",
        b"\xff\xfe",
        long.as_bytes(),
        deep.as_bytes(),
    ] {
        let (code, message) = Desk::refusal(&raw_zip(&[RawEntry::file(name, b"x")]));
        assert_eq!(code, "UNSAFE_PATH", "{name:?}: {message}");
    }
}

#[test]
fn links_and_special_files_are_refused() {
    for (kind, mode) in [
        ("link", 0o120_777),
        ("fifo", 0o010_644),
        ("character device", 0o020_644),
        ("block device", 0o060_644),
        ("socket", 0o140_644),
        ("folder that is named like a file", 0o040_755),
    ] {
        let entry = RawEntry { unix_mode: mode, ..RawEntry::file("a", b"/etc/passwd") };
        assert_eq!(
            Desk::refusal(&raw_zip(&[entry])),
            (
                "UNSAFE_PATH",
                r#"the zip's entry "a" is refused: it is a link, a device or another special file"#.to_owned()
            ),
            "{kind}"
        );
    }
}

#[test]
fn names_that_meet_on_some_disk_are_refused() {
    let pairs = [("a", "a"), ("a", "A"), ("É", "é"), ("dir/", "dir"), ("dir/x", "DIR/X"), ("dir/x", "DIR/y")];
    for (one, other) in pairs {
        let zip = raw_zip(&[RawEntry::file(one, b""), RawEntry::file(other, b"")]);
        let zip = if one.ends_with('/') {
            let folder = RawEntry { unix_mode: 0o040_755, ..RawEntry::file(one, b"") };
            raw_zip(&[folder, RawEntry::file(other, b"")])
        } else {
            zip
        };
        assert_eq!(Desk::refusal(&zip).0, "UNSAFE_PATH", "{one} and {other}");
    }
    let file_as_folder = raw_zip(&[RawEntry::file("a", b""), RawEntry::file("a/b", b"")]);
    let (code, message) = Desk::refusal(&file_as_folder);
    assert_eq!(code, "UNSAFE_PATH");
    assert_eq!(message, r#"the zip's entry "a/b" is refused: a file stands where its folder should be"#);
}

#[test]
fn an_encrypted_entry_is_refused() {
    let entry = RawEntry { flags: 1, ..RawEntry::file("a", &[7; 40]) };
    assert_eq!(
        Desk::refusal(&raw_zip(&[entry])),
        ("INVALID_ZIP", r#"the upload is not a readable zip: "a" is encrypted"#.to_owned())
    );
}

#[test]
fn an_entry_that_lies_about_itself_is_refused() {
    let honest = RawEntry::file("a", b"content");
    for (lie, entry) in [
        ("a smaller size", RawEntry { declared_size: Some(3), ..honest.clone() }),
        ("a larger size", RawEntry { declared_size: Some(70), ..honest.clone() }),
        ("another checksum", RawEntry { crc: Some(1), ..honest.clone() }),
        ("another name in its local header", RawEntry { local_name: Some(b"../a".to_vec()), ..honest.clone() }),
        ("a method nobody knows", RawEntry { method: 77, ..honest.clone() }),
        ("bytes that are no deflate stream", RawEntry { method: 8, ..honest }),
    ] {
        assert_eq!(Desk::refusal(&raw_zip(&[entry])).0, "INVALID_ZIP", "{lie}");
    }
}

#[test]
fn each_limit_is_named_when_it_is_passed() {
    let noise: Vec<u8> = (0..1_100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let many: Vec<RawEntry> = (0..21).map(|n| RawEntry::file(n.to_string(), b"")).collect();
    let too_large =
        |limit: &str, allowed: u64| ("PAYLOAD_TOO_LARGE", format!("the upload passes the limit {limit} of {allowed}"));
    assert_eq!(Desk::refusal(&raw_zip(&[RawEntry::file("a", &noise)])), too_large("max_upload_bytes", 1_000_000));
    assert_eq!(Desk::refusal(&raw_zip(&many)), too_large("max_entries", 20));
    assert_eq!(Desk::refusal(&deflated(&[("a", &vec![0; 3_000_001])])), too_large("max_file_bytes", 3_000_000));
    let halves = deflated(&[("a", &vec![0; 2_500_000]), ("b", &vec![0; 2_500_000])]);
    assert_eq!(Desk::refusal(&halves), too_large("max_unpacked_bytes", 4_000_000));
    assert_eq!(Desk::refusal(&deflated(&[("a", &vec![0; 2_000_000])])), too_large("max_ratio", 50));
}

/// A small zip can unpack to very much.
#[test]
fn what_has_to_stay_free_on_the_disk_stays_free_while_files_are_unpacked_and_copied() {
    let desk = Desk::new();
    let limits = UploadLimits { min_free_bytes: 1 << 60, ..small_limits() };
    let fields = fields_of(&["a"], None);
    let zip = deflated(&[("a", b"x")]);
    for refused in
        [desk.send(Some(&zip), &[], &fields, &limits), desk.send(None, &[("a", "a", b"x")], &fields, &limits)]
    {
        assert_eq!(refused.unwrap_err().code().as_str(), "INSUFFICIENT_STORAGE");
    }
    assert!(!desk.staging().exists());
}

/// Each entry could name 31 folders that nothing counted, and each was made.
#[test]
fn folders_that_only_names_name_count_as_entries() {
    let folder = tempfile::tempdir().unwrap();
    let unpacked = |entries: &[RawEntry]| {
        let zip = folder.path().join("a.zip");
        fs::write(&zip, raw_zip(entries)).unwrap();
        let into = tempfile::tempdir_in(folder.path()).unwrap();
        let files = Archive::open(&zip, &small_limits()).and_then(|archive| archive.unpack(into.path()));
        files.map(|files| files.len()).map_err(|error| error.to_string())
    };
    // Five each: four folders and a file.
    let deep = |count: usize| (0..count).map(|number| RawEntry::file(format!("{number}/d/d/d/x"), b"x")).collect();
    let (four, five): (Vec<RawEntry>, Vec<RawEntry>) = (deep(4), deep(5));
    assert_eq!(unpacked(&four), Ok(4));
    assert_eq!(unpacked(&five), Err("the upload passes the limit max_entries of 20".to_owned()));
    // A folder counts once, also if it has an entry of its own.
    let mut same: Vec<RawEntry> = (0..18).map(|number| RawEntry::file(format!("a/b/{number}"), b"x")).collect();
    same.push(RawEntry { unix_mode: 0o040_755, ..RawEntry::file("a/b/", b"") });
    assert_eq!(unpacked(&same), Ok(18));
}

#[test]
fn a_short_repetitive_text_is_no_bomb() {
    let text = vec![b'x'; 90_000];
    let manifest = Desk::new().upload(&deflated(&[("a", &text)]), &["a"], &small_limits()).unwrap();
    assert_eq!(manifest.files, [uploaded("a", &text)]);
}

#[test]
fn a_directory_that_claims_more_entries_than_it_has_room_for_is_refused_at_once() {
    let mut zip = raw_zip(&[RawEntry::file("a", b"x")]);
    let end = zip.len() - 22;
    zip[end + 8..end + 12].copy_from_slice(&[0xfe, 0xff, 0xfe, 0xff]);
    assert!(matches!(Desk::refusal(&zip).0, "INVALID_ZIP" | "PAYLOAD_TOO_LARGE"));
}

#[test]
fn an_honest_end_is_accepted_in_its_long_form_and_with_a_comment() {
    let short = raw_zip(&[RawEntry::file("a", b"x")]);
    let (list_at, list_bytes) = (32, short.len() as u64 - 22 - 32);
    let mut commented = short.clone();
    let length = commented.len();
    commented[length - 2..].copy_from_slice(&[6, 0]);
    commented.extend(b"PK\x05\x06!!");
    for zip in [zip64(RawEntry::file("a", b"x"), 1, list_bytes, list_at, None), commented, short] {
        let manifest = Desk::new().upload(&zip, &["a"], &small_limits()).unwrap();
        assert_eq!(manifest.files, [uploaded("a", b"x")]);
    }
}

#[test]
fn entries_that_share_one_body_are_refused() {
    // Ten directory entries that all point at the same bytes: small as a zip, ten times that unpacked.
    let single = raw_zip(&[RawEntry::file("0", &vec![1; 250_000])]);
    let body = 30 + 1 + 250_000;
    let record = &single[body..single.len() - 22];
    let mut zip = single[..body].to_vec();
    for name in b'0'..=b'9' {
        zip.extend(&record[..record.len() - 1]);
        zip.push(name);
    }
    zip.extend(end_record(10, 10 * record.len() as u32, body as u32));
    assert_eq!(Desk::refusal(&zip).0, "INVALID_ZIP");
}

#[test]
fn a_package_with_folders_unpacks_sorted_and_keeps_its_executables() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (zip, into) = (folder.path().join("package.zip"), folder.path().join("into"));
    fs::create_dir(&into).unwrap();
    let script = RawEntry { unix_mode: 0o104_755, ..RawEntry::file("pkg/scripts/run.sh", b"#!/bin/sh\n") };
    let entries = [
        script,
        RawEntry { unix_mode: 0o040_755, ..RawEntry::file("pkg/empty/", b"") },
        RawEntry::file("pkg/SKILL.md", b"---\n"),
    ];
    fs::write(&zip, raw_zip(&entries)).unwrap();
    let archive = Archive::open(&zip, &UploadLimits::default()).unwrap();
    assert_eq!(archive.names().collect::<Vec<_>>(), ["pkg/scripts/run.sh", "pkg/empty/", "pkg/SKILL.md"]);
    let names: Vec<String> = archive.unpack(&into).unwrap().into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["pkg/SKILL.md", "pkg/scripts/run.sh"]);
    let mode = fs::metadata(into.join("pkg/scripts/run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7111, 0o111, "executable, and no set-user bit");
    assert!(into.join("pkg/empty").is_dir());
}
