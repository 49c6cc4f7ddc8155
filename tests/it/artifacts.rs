//! What a run produced: indexed against the contract, hashed, bundled.

mod runs;

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use sha2::{Digest, Sha256};
use skill_runner::artifact::{
    ArtifactEntry, Bundle, BundleFile, Contents, Error, Indexed, Manifest, Refused, artifacts_sha256, bundle, index,
};
use skill_runner::skill::ArtifactRule;

fn run_with(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let run = tempfile::tempdir().unwrap();
    for folder in ["artifacts", "bundle", "result"] {
        fs::create_dir(run.path().join(folder)).unwrap();
    }
    for (path, content) in files {
        let path = run.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    run
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn promise(role: &str, pattern: &str, mime: Option<&str>, required: bool) -> ArtifactRule {
    ArtifactRule { role: role.into(), pattern: pattern.into(), mime: mime.map(str::to_owned), required }
}

fn entry(role: &str, path: &str, mime: &str, content: &[u8], required: bool) -> ArtifactEntry {
    ArtifactEntry {
        role: role.into(),
        path_rel: path.into(),
        filename: path.rsplit('/').next().unwrap().into(),
        mime: mime.into(),
        size: content.len() as u64,
        sha256: sha256(content),
        required,
    }
}

fn refused(path: &str, reason: &'static str) -> Refused {
    Refused { path_rel: path.into(), reason }
}

#[test]
fn each_file_belongs_to_the_first_promise_it_fits_and_the_rest_is_output() {
    let run = run_with(&[
        ("artifacts/report.md", b"# r"),
        ("artifacts/charts/a.svg", b"<svg/>"),
        ("artifacts/charts/deep/b.svg", b"<svg/>"),
        ("artifacts/notes.custom", b"n"),
        ("artifacts/unknown", b""),
    ]);
    let contract = [
        promise("report", "artifacts/report.md", None, true),
        promise("chart", "charts/*.svg", None, false),
        promise("any-svg", "**/*.svg", Some("image/x-special"), false),
        promise("notes", "./artifacts/*.custom", Some("text/x-notes"), true),
    ];
    assert_eq!(
        index(run.path(), &contract).unwrap(),
        Indexed {
            entries: vec![
                entry("chart", "artifacts/charts/a.svg", "image/svg+xml", b"<svg/>", false),
                entry("any-svg", "artifacts/charts/deep/b.svg", "image/x-special", b"<svg/>", false),
                entry("notes", "artifacts/notes.custom", "text/x-notes", b"n", true),
                entry("report", "artifacts/report.md", "text/markdown", b"# r", true),
                entry("output", "artifacts/unknown", "application/octet-stream", b"", false),
            ],
            missing: vec![],
            refused: vec![],
        }
    );
}

#[test]
fn a_required_promise_that_no_file_fits_is_missing_and_one_fit_by_anothers_file_is_not() {
    let run = run_with(&[("artifacts/report.md", b"r")]);
    let contract = [
        promise("docs", "*.md", None, true),
        promise("report", "report.md", None, true),
        promise("data", "*.csv", None, true),
        promise("extra", "*.png", None, false),
    ];
    let found = index(run.path(), &contract).unwrap();
    assert_eq!(found.entries, [entry("docs", "artifacts/report.md", "text/markdown", b"r", true)]);
    assert_eq!(found.missing, [contract[2].clone()]);
}

/// Whoever unpacks a bundle on another system would get a file elsewhere.
#[test]
fn files_whose_names_are_paths_elsewhere_or_control_a_terminal_are_refused() {
    let odd =
        ["artifacts/10:30.txt", "artifacts/a\"b'c?*<>|.txt", "artifacts/co:lon", "artifacts/d/a:b", "artifacts/spa ce"];
    let bad =
        ["artifacts/..\\up.bat", "artifacts/C:\\up.bat", "artifacts/a\nb", "artifacts/c:up.bat", "artifacts/e\x1b[2J"];
    let files: Vec<(&str, &[u8])> = odd.iter().chain(&bad).map(|path| (*path, &b"x"[..])).collect();
    let run = run_with(&[&files[..], &[("artifacts/D:/in.txt", b"x")]].concat());
    let found = index(run.path(), &[]).unwrap();
    assert_eq!(found.entries.iter().map(|entry| entry.path_rel.as_str()).collect::<Vec<_>>(), odd);
    let (backslash, control, drive) =
        ("its path has a backslash", "its path has a control character", "its path begins with a drive letter");
    assert_eq!(
        found.refused,
        [
            refused(bad[0], backslash),
            refused(bad[1], backslash),
            refused("artifacts/D:", drive),
            refused(bad[2], control),
            refused(bad[3], drive),
            refused(bad[4], control),
        ]
    );
}

#[test]
fn links_pipes_and_sockets_are_refused_and_never_followed_or_waited_for() {
    let run = run_with(&[("artifacts/real.txt", b"real"), ("secret", b"secret"), ("outside/file", b"x")]);
    let artifacts = run.path().join("artifacts");
    symlink("../secret", artifacts.join("link.md")).unwrap();
    symlink("../outside", artifacts.join("linked-folder")).unwrap();
    symlink("loop", artifacts.join("loop")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, artifacts.join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(artifacts.join("socket")).unwrap();
    // Not everybody may make a device.
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        artifacts.join("device"),
        rustix::fs::FileType::CharacterDevice,
        mode,
        rustix::fs::makedev(1, 3),
    );
    let device = made.is_ok().then(|| refused("artifacts/device", "it is a device"));
    let contract = [promise("linked", "link.md", None, true)];
    let mut found = index(run.path(), &contract).unwrap();
    assert_eq!(found.refused.iter().position(|refused| Some(refused) == device.as_ref()), device.as_ref().map(|_| 0));
    found.refused.retain(|refused| Some(refused) != device.as_ref());
    assert_eq!(
        found,
        Indexed {
            entries: vec![entry("output", "artifacts/real.txt", "text/plain", b"real", false)],
            missing: contract.to_vec(),
            refused: vec![
                refused("artifacts/link.md", "it is a link"),
                refused("artifacts/linked-folder", "it is a link"),
                refused("artifacts/loop", "it is a link"),
                refused("artifacts/pipe", "it is a named pipe"),
                refused("artifacts/socket", "it is a socket"),
            ],
        }
    );
}

#[test]
fn an_artifacts_folder_that_is_a_link_is_refused_and_a_missing_one_is_empty() {
    let run = run_with(&[("outside/file", b"x")]);
    fs::remove_dir(run.path().join("artifacts")).unwrap();
    assert_eq!(index(run.path(), &[]).unwrap(), Indexed::default());
    symlink("outside", run.path().join("artifacts")).unwrap();
    let refused = vec![refused("artifacts", "it is a link")];
    assert_eq!(index(run.path(), &[]).unwrap(), Indexed { refused, ..Indexed::default() });
}

#[test]
fn names_that_are_no_text_and_folders_without_end_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let run = run_with(&[]);
    fs::write(run.path().join("artifacts").join(std::ffi::OsStr::from_bytes(b"\xff.txt")), "x").unwrap();
    let deep = vec!["d"; 40].join("/");
    fs::create_dir_all(run.path().join("artifacts").join(deep)).unwrap();
    let found = index(run.path(), &[]).unwrap();
    let cut = format!("artifacts/{}", vec!["d"; 33].join("/"));
    assert_eq!(
        found.refused,
        [refused(&cut, "it is nested too deeply"), refused("artifacts/\u{fffd}.txt", "its name is not UTF-8")]
    );
}

#[test]
fn files_and_folders_that_their_owner_locked_are_refused_and_the_rest_is_indexed() {
    let run = run_with(&[("artifacts/locked.txt", b"x"), ("artifacts/dir/inside", b"x"), ("artifacts/open", b"x")]);
    let (file, folder) = (run.path().join("artifacts/locked.txt"), run.path().join("artifacts/dir"));
    for path in [&file, &folder] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    }
    let locks_bind = fs::File::open(&file).is_err();
    let found = index(run.path(), &[]).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    // Nothing is locked for root.
    let expected = if locks_bind {
        vec![refused("artifacts/dir", "it cannot be read"), refused("artifacts/locked.txt", "it cannot be read")]
    } else {
        vec![]
    };
    assert_eq!(found.refused, expected);
    assert_eq!(found.entries.len() + found.refused.len(), 3);
}

#[test]
fn files_longer_than_can_be_read_in_a_while_are_refused_and_the_rest_is_kept() {
    let run = run_with(&[("artifacts/small", b"x")]);
    fs::File::create(run.path().join("artifacts/holes")).unwrap().set_len(1 << 42).unwrap();
    let left_out = vec![refused("artifacts/holes", "with it, the files would be larger than 4 GiB")];
    let small = entry("output", "artifacts/small", "application/octet-stream", b"x", false);
    let expected = Indexed { entries: vec![small], missing: vec![], refused: left_out.clone() };
    assert_eq!(index(run.path(), &[]).unwrap(), expected);
    for contents in [Contents::Result, everything()] {
        let (bundle, _, _) = make(run.path(), contents);
        let paths: Vec<&str> = bundle.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!((paths, &bundle.refused), (vec!["artifacts/small"], &left_out));
    }
}

#[test]
fn a_pattern_that_is_no_glob_is_named() {
    let run = run_with(&[]);
    let error = index(run.path(), &[promise("x", "a[", None, false)]).unwrap_err();
    assert!(matches!(&error, Error::Pattern { pattern, .. } if pattern == "a["), "{error:?}");
}

#[test]
fn the_manifest_lists_the_artifacts_with_one_hash_over_their_canonical_form() {
    let run = run_with(&[("artifacts/b", b"2"), ("artifacts/a", b"1")]);
    let entries = index(run.path(), &[]).unwrap().entries;
    let manifest = Manifest { artifacts: entries.clone(), files: None };
    let written: serde_json::Value = serde_json::from_slice(&manifest.to_bytes()).unwrap();
    let canonical = format!(
        concat!(
            r#"[{{"role":"output","path_rel":"artifacts/a","filename":"a","mime":"application/octet-stream","#,
            r#""size":1,"sha256":"{}","required":false}},"#,
            r#"{{"role":"output","path_rel":"artifacts/b","filename":"b","mime":"application/octet-stream","#,
            r#""size":1,"sha256":"{}","required":false}}]"#
        ),
        sha256(b"1"),
        sha256(b"2")
    );
    assert_eq!(serde_json::to_string(&entries).unwrap(), canonical, "the type's own JSON is the canonical form");
    let expected = serde_json::json!({"artifacts": entries, "artifacts_sha256": sha256(canonical.as_bytes())});
    assert_eq!(written, expected);
    let backwards: Vec<_> = entries.iter().rev().cloned().collect();
    assert_eq!(artifacts_sha256(&backwards), artifacts_sha256(&entries));
}

fn unzip(path: &Path) -> Vec<(String, Vec<u8>, u32)> {
    let mut archive = zip::ZipArchive::new(fs::File::open(path).unwrap()).unwrap();
    (0..archive.len())
        .map(|number| {
            let mut file = archive.by_index(number).unwrap();
            let mut content = Vec::new();
            file.read_to_end(&mut content).unwrap();
            (file.name().unwrap().into_owned(), content, file.unix_mode().unwrap() & 0o777)
        })
        .collect()
}

fn finished_run() -> tempfile::TempDir {
    let run = run_with(&[
        ("artifacts/report.md", b"# r"),
        ("artifacts/sub/long.txt", &[b'x'; 200_000]),
        ("result/result.json", b"{}"),
        ("result/validation.json", b"[]"),
        ("manifest.json", b"{\"artifacts\":[]}"),
        ("input.json", b"{}"),
        ("logs/stdout.txt", b"out"),
        (".codex/skills/s/scripts/run.sh", b"#!/bin/sh\n"),
        ("bundle/old.zip", b"old"),
    ]);
    let script = run.path().join(".codex/skills/s/scripts/run.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o700)).unwrap();
    symlink("/etc/passwd", run.path().join("artifacts/evil")).unwrap();
    run
}

/// Everything in the folder, and nothing besides.
fn everything() -> Contents {
    Contents::Everything { with_skill: true, added: Vec::new() }
}

fn make(run: &Path, contents: Contents) -> (Bundle, serde_json::Value, Vec<u8>) {
    let (zip, manifest) = (run.join("bundle/b.zip"), run.join("bundle/m.json"));
    let made = bundle(run, contents, &zip, &manifest, 0).unwrap();
    let listed = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    (made, listed, fs::read(zip).unwrap())
}

#[test]
fn the_result_bundle_holds_result_artifacts_and_manifest_and_lists_them() {
    let run = finished_run();
    let (made, listed, _) = make(run.path(), Contents::Result);
    let long = [b'x'; 200_000];
    let contents: [(&str, &[u8]); 4] = [
        ("artifacts/report.md", b"# r"),
        ("artifacts/sub/long.txt", &long),
        ("manifest.json", b"{\"artifacts\":[]}"),
        ("result/result.json", b"{}"),
    ];
    let files = contents.map(|(path, content)| BundleFile {
        path: path.into(),
        size: content.len() as u64,
        sha256: sha256(content),
    });
    assert_eq!(listed, serde_json::json!({ "files": files }));
    assert_eq!(made, Bundle { files: files.into(), refused: vec![refused("artifacts/evil", "it is a link")] });
    let unzipped = contents.map(|(path, content)| (path.to_owned(), content.to_vec(), 0o644));
    assert_eq!(unzip(&run.path().join("bundle/b.zip")), unzipped);
}

#[test]
fn the_debug_bundle_holds_everything_but_the_bundles() {
    let run = finished_run();
    let (made, _, _) = make(run.path(), everything());
    let paths: Vec<&str> = made.files.iter().map(|file| file.path.as_str()).collect();
    let expected = [
        ".codex/skills/s/scripts/run.sh",
        "artifacts/report.md",
        "artifacts/sub/long.txt",
        "input.json",
        "logs/stdout.txt",
        "manifest.json",
        "result/result.json",
        "result/validation.json",
    ];
    assert_eq!(paths, expected);
    assert_eq!(unzip(&run.path().join("bundle/b.zip"))[0].2, 0o755);
}

#[test]
fn the_same_files_give_the_same_bundle_bytes() {
    let (one, other) = (finished_run(), finished_run());
    for contents in [|| Contents::Result, everything] {
        let (_, _, bytes) = make(one.path(), contents());
        assert_eq!(bytes, make(one.path(), contents()).2);
        assert_eq!(bytes, make(other.path(), contents()).2);
    }
}

#[test]
fn a_bundle_leaves_no_temporary_file_and_replaces_the_old_one() {
    let run = finished_run();
    make(run.path(), everything());
    make(run.path(), Contents::Result);
    let mut names: Vec<_> =
        fs::read_dir(run.path().join("bundle")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["b.zip", "m.json", "old.zip"]);
}
