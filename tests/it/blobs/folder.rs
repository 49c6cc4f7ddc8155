//! Shared files in a folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use skill_runner::blobs::{self, Blob, Blobs, Error};
use skill_runner::settings::BlobsPlace;

use super::contract;

fn open(folder: &Path) -> Arc<dyn Blobs> {
    blobs::open(&BlobsPlace::Folder(folder.to_owned())).unwrap()
}

fn path_of(folder: &Path, name: &str) -> PathBuf {
    folder.join("sha256").join(&name[..2]).join(name)
}

fn path(folder: &Path, blob: &Blob) -> PathBuf {
    path_of(folder, &hex::encode(blob.sha256))
}

fn make_old(path: &Path, hours: u64) {
    let old = SystemTime::now() - Duration::from_secs(hours * 3600);
    fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
}

#[tokio::test]
async fn what_was_put_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    contract::what_was_put_comes_back(&*open(folder.path())).await;
}

#[tokio::test]
async fn what_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    contract::what_is_not_there_is_told(&*open(folder.path())).await;
}

#[tokio::test]
async fn damaged_content_reaches_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let damage = async |name: &str, bytes: Vec<u8>| fs::write(path_of(folder.path(), name), bytes).unwrap();
    contract::damaged_content_reaches_nobody(&*open(folder.path()), damage).await;
}

#[tokio::test]
async fn the_same_content_put_by_many_at_once_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let several: Vec<_> = (0..3).map(|_| open(folder.path())).collect();
    contract::the_same_content_put_by_many_at_once_is_there_once(&several).await;
}

#[tokio::test]
async fn a_list_in_pages_finds_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path());
    assert_eq!(blobs.list(None, 10).await.unwrap(), []);
    contract::a_list_in_pages_finds_each_once(&*blobs, 1500).await;
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_put_is_never_half_there() {
    let folder = tempfile::tempdir().unwrap();
    contract::a_file_that_changes_while_it_is_put_is_never_half_there(&*open(folder.path())).await;
}

#[tokio::test]
async fn one_that_is_put_again_is_as_young_as_a_new_one_and_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path());
    let blob = blobs.put(Bytes::from_static(b"content")).await.unwrap();
    let path = path(folder.path(), &blob);
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(&path);
    make_old(&path, 50);
    assert!(blobs.list(None, 10).await.unwrap()[0].age >= 49 * 3600);
    blobs.put(Bytes::from_static(b"content")).await.unwrap();
    assert!(blobs.list(None, 10).await.unwrap()[0].age < 3600);
    assert_eq!(inode(&path), before);
    // One that was cut short is not taken for it.
    fs::write(&path, "cont").unwrap();
    blobs.put(Bytes::from_static(b"content")).await.unwrap();
    assert_eq!(blobs.read(&blob).await.unwrap(), "content");
}

#[tokio::test]
async fn what_a_dead_writer_left_is_not_seen_and_is_removed_after_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path());
    let blob = blobs.put(Bytes::from_static(b"content")).await.unwrap();
    let part = path(folder.path(), &blob).parent().unwrap().to_owned();
    let (young, old) = (part.join(".young.tmp"), part.join(".old.tmp"));
    for (path, hours) in [(&young, 23), (&old, 25)] {
        fs::write(path, "half").unwrap();
        make_old(path, hours);
    }
    let listed: Vec<Blob> = blobs.list(None, 10).await.unwrap().into_iter().map(|found| found.blob).collect();
    assert_eq!(listed, [blob]);
    assert_eq!((young.exists(), old.exists()), (true, false));
}

#[tokio::test]
async fn a_list_removes_nothing_but_what_writers_left_and_is_not_stopped_by_what_else_is_there() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let blobs = open(folder.path());
    let blob = blobs.put(Bytes::from_static(b"content")).await.unwrap();
    let part = path(folder.path(), &blob).parent().unwrap().to_owned();
    // Snapshots of the file system, and a link in the place of another part that leads to files of somebody else.
    let (snapshots, foreign) = (part.join(".snapshot"), elsewhere.path().join(".profile"));
    fs::create_dir(&snapshots).unwrap();
    fs::write(&foreign, "not shared").unwrap();
    let old = SystemTime::now() - Duration::from_secs(50 * 3600);
    for path in [&snapshots, &foreign] {
        fs::File::open(path).unwrap().set_modified(old).unwrap();
    }
    let other = (0..=u8::MAX).map(|n| part.with_file_name(hex::encode([n]))).find(|other| *other != part).unwrap();
    symlink(elsewhere.path(), other).unwrap();
    let listed = blobs.list(None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|listed| listed.blob).collect::<Vec<_>>(), [blob]);
    assert_eq!((foreign.exists(), snapshots.is_dir()), (true, true));
}

#[tokio::test]
async fn files_and_folders_are_for_their_owner_alone_and_links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&outside).unwrap();
    let blobs = open(&root);
    let blob = blobs.put(Bytes::from_static(b"content")).await.unwrap();
    let path = path(&root, &blob);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let part = path.parent().unwrap();
    assert_eq!([&path, part, &root.join("sha256")].map(mode), [0o600, 0o700, 0o700]);
    // In the place of the file: it is not read through, and a put replaces it.
    fs::write(outside.join("file"), "content").unwrap();
    fs::remove_file(&path).unwrap();
    symlink(outside.join("file"), &path).unwrap();
    let error = blobs.read(&blob).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    assert_eq!(blobs.list(None, 10).await.unwrap(), []);
    blobs.put(Bytes::from_static(b"content")).await.unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    // In the place of a folder: nothing is written through it.
    fs::remove_dir_all(part).unwrap();
    symlink(&outside, part).unwrap();
    let error = blobs.put(Bytes::from_static(b"content")).await.unwrap_err();
    assert!(matches!(error, Error::Unusable { .. }), "{error:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_told_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let missing = blobs::open(&BlobsPlace::Folder(root.clone())).unwrap_err();
    let expected = format!(
        "the shared files {} cannot be used: the folder does not exist; create it, or mount what it is on",
        root.display()
    );
    assert_eq!(missing.to_string(), expected);
    assert!(!root.exists());
    fs::create_dir(&root).unwrap();
    let blobs = open(&root);
    assert_eq!(blobs.check().await.unwrap(), format!("the folder {}", root.display()));
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "a check leaves nothing");
    let blob = blobs.put(Bytes::from_static(b"content")).await.unwrap();
    // As if it were unmounted: that is not the absence of one file.
    fs::remove_dir_all(&root).unwrap();
    let error = blobs.read(&blob).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let error = blobs.put(Bytes::from_static(b"content")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(blobs.check().await.is_err());
}
