//! What holds wherever shared files are. Each check takes a place that nothing is in yet.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use sha2::{Digest, Sha256};
use skill_runner::blobs::{Blob, Blobs, Error};

pub fn blob_of(content: &[u8]) -> Blob {
    Blob { sha256: Sha256::digest(content).into(), size: content.len() as u64 }
}

/// Content that repeats nowhere.
pub fn content(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ length as u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::from_fn(|| Some(next())).flatten().take(length).collect()
}

async fn names(blobs: &dyn Blobs) -> Vec<Blob> {
    blobs.list(None, 10_000).await.unwrap().into_iter().map(|found| found.blob).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Content of any length comes back as it was put, once however often it was put, in files for their owner alone.
pub async fn what_was_put_comes_back(blobs: &dyn Blobs) {
    let here = tempfile::tempdir().unwrap();
    let (source, target) = (here.path().join("source"), here.path().join("target"));
    let mut all = Vec::new();
    for length in [0, 1, 70_000, 20 << 20] {
        let content = content(length);
        fs::write(&source, &content).unwrap();
        let blob = blob_of(&content);
        assert_eq!(blobs.put_file(&source).await.unwrap(), blob);
        assert_eq!(blobs.put_file(&source).await.unwrap(), blob);
        assert_eq!(blobs.put(Bytes::from(content.clone())).await.unwrap(), blob);
        fs::write(&target, "what was there").unwrap();
        blobs.fetch(&blob, &target).await.unwrap();
        assert!(fs::read(&target).unwrap() == content, "{length}");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(blobs.read(&blob).await.unwrap() == content, "{length}");
        all.push(blob);
    }
    all.sort_by_key(|blob| blob.sha256);
    assert_eq!(names(blobs).await, all);
    assert_eq!(names_in(here.path()), ["source", "target"]);
}

/// What is not there is told as that, and removing it again is no error.
pub async fn what_is_not_there_is_told(blobs: &dyn Blobs) {
    let here = tempfile::tempdir().unwrap();
    let kept = blobs.put(Bytes::from_static(b"kept")).await.unwrap();
    let removed = blobs.put(Bytes::from_static(b"removed")).await.unwrap();
    for _ in 0..2 {
        blobs.remove(&removed).await.unwrap();
    }
    let target = here.path().join("target");
    for error in [blobs.fetch(&removed, &target).await.unwrap_err(), blobs.read(&removed).await.map(drop).unwrap_err()]
    {
        assert!(matches!(&error, Error::NotFound { sha256 } if *sha256 == hex::encode(removed.sha256)), "{error:?}");
    }
    assert_eq!(names_in(here.path()), Vec::<String>::new());
    assert_eq!(names(blobs).await, [kept]);
}

/// Damaged content is told, and reaches no file. `damage` is given the name and makes other bytes of it.
pub async fn damaged_content_reaches_nobody(blobs: &dyn Blobs, damage: impl AsyncFn(&str, Vec<u8>)) {
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("target");
    let content = content(100_000);
    let blob = blobs.put(Bytes::from(content.clone())).await.unwrap();
    let mut flipped = content.clone();
    flipped[77_777] ^= 1;
    let longer = [&content[..], b"!"].concat();
    for wrong in [flipped, content[..99_999].to_vec(), longer] {
        damage(&hex::encode(blob.sha256), wrong).await;
        for error in [blobs.fetch(&blob, &target).await.unwrap_err(), blobs.read(&blob).await.map(drop).unwrap_err()] {
            assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
        }
        assert_eq!(names_in(here.path()), Vec::<String>::new());
    }
}

/// Many that put the same content at the same time leave one whole file.
pub async fn the_same_content_put_by_many_at_once_is_there_once(blobs: &[Arc<dyn Blobs>]) {
    let content = Bytes::from(content(300_000));
    let puts = blobs.iter().cycle().take(24).cloned().map(|blobs| {
        let content = content.clone();
        tokio::spawn(async move { blobs.put(content).await.unwrap() })
    });
    for put in puts.collect::<Vec<_>>() {
        assert_eq!(put.await.unwrap(), blob_of(&content));
    }
    assert_eq!(names(&*blobs[0]).await, [blob_of(&content)]);
    assert!(blobs[0].read(&blob_of(&content)).await.unwrap() == content);
}

/// A list in pages finds each once, in the order of the hashes.
pub async fn a_list_in_pages_finds_each_once(blobs: &dyn Blobs, count: usize) {
    let puts = (0..count).map(|number| blobs.put(Bytes::from(number.to_string())));
    let mut all: Vec<Blob> = stream::iter(puts).buffer_unordered(16).map(Result::unwrap).collect().await;
    all.sort_by_key(|blob| blob.sha256);
    for page in [700, 1000, 5000] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let listed = blobs.list(after, page).await.unwrap();
            assert!(listed.len() <= page && listed.iter().all(|found| found.age < 3600), "{}", listed.len());
            let Some(last) = listed.last() else { break };
            after = Some(last.blob.sha256);
            found.extend(listed.iter().map(|found| found.blob));
        }
        assert!(found == all, "pages of {page}");
    }
}

/// A file that is written to while it is put is refused, or what was put is whole.
pub async fn a_file_that_changes_while_it_is_put_is_never_half_there(blobs: &dyn Blobs) {
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("source");
    fs::write(&source, content(3 << 20)).unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (stop, source) = (stop.clone(), source.clone());
        move || {
            let mut number = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                number += 1;
                let file = fs::File::options().write(true).open(&source).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &number.to_le_bytes(), 2 << 20).unwrap();
            }
        }
    });
    let mut refused = 0;
    for _ in 0..20 {
        match blobs.put_file(&source).await {
            Ok(blob) => assert_eq!(blob_of(&blobs.read(&blob).await.unwrap()), blob),
            Err(Error::Changed { path }) => {
                assert_eq!(path, source.display().to_string());
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
    assert!(refused > 0, "no change was seen");
    for blob in names(blobs).await {
        assert_eq!(blob_of(&blobs.read(&blob).await.unwrap()), blob);
    }
}
