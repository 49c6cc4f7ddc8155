//! Shared files in a real object store.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use skill_runner::blobs::{self, Blob, Blobs, Error};
use skill_runner::settings::{BlobsPlace, Settings};

use super::contract;
use crate::support::object_store::{self, BUCKET, KEY_ID, ObjectStore, READER, SECRET};
use crate::support::relay::{Relay, Way};

/// The variables that name a place below a prefix.
fn variables(endpoint: &str, prefix: &str) -> BTreeMap<String, String> {
    let place = format!("s3://{BUCKET}/{prefix}");
    let pairs = [
        ("SKILL_RUNNER_BLOBS", place.as_str()),
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ];
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn place(variables: &BTreeMap<String, String>) -> BlobsPlace {
    Settings::load(None, variables, &[], 1).unwrap().several.blobs.unwrap()
}

fn open_at(endpoint: &str, prefix: &str) -> Arc<dyn Blobs> {
    blobs::open(&place(&variables(endpoint, prefix))).unwrap()
}

fn open(store: &ObjectStore, prefix: &str) -> Arc<dyn Blobs> {
    open_at(&store.endpoint(), prefix)
}

fn through(relay: &Relay, prefix: &str) -> Arc<dyn Blobs> {
    open_at(&format!("http://{}", relay.address), prefix)
}

fn key(prefix: &str, name: &str) -> String {
    format!("{prefix}/sha256/{}/{name}", &name[..2])
}

/// When the object was last written.
fn written(store: &ObjectStore, prefix: &str, blob: &Blob) -> String {
    let name = hex::encode(blob.sha256);
    let folder = store.folder(&format!("{prefix}/sha256/{}", &name[..2]));
    folder.into_iter().find(|(found, _)| *found == name).unwrap().1
}

/// The server's clock is wrong by this: every `Date` that it tells.
fn later(server: &ObjectStore, hours: i64) -> Relay {
    Relay::to(server.address, move |way, bytes| {
        let head = b"\r\nDate: ";
        let length = "Wed, 18 Nov 2026 11:35:55 GMT".len();
        if way == Way::ToClient
            && let Some(at) = bytes.windows(head.len()).position(|found| found == head)
        {
            let date = at + head.len()..at + head.len() + length;
            let told = jiff::fmt::rfc2822::parse(std::str::from_utf8(&bytes[date.clone()]).unwrap()).unwrap();
            let moved: Timestamp = told.timestamp() + SignedDuration::from_hours(hours);
            bytes[date].copy_from_slice(moved.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string().as_bytes());
        }
        true
    })
}

#[tokio::test]
async fn what_was_put_comes_back() {
    let Some(store) = object_store::shared("what was put into an object store comes back") else { return };
    contract::what_was_put_comes_back(&*open(store, &object_store::fresh())).await;
    // Without a prefix, too; the bucket is not empty then.
    let blobs = open(store, "");
    let blob = blobs.put(Bytes::from_static(b"at the top")).await.unwrap();
    assert_eq!(blobs.read(&blob).await.unwrap(), "at the top");
    assert_eq!(blobs.list(None, 10).await.unwrap().iter().map(|found| found.blob).collect::<Vec<_>>(), [blob]);
}

#[tokio::test]
async fn what_is_not_there_is_told() {
    let Some(store) = object_store::shared("what is not in an object store is told") else { return };
    contract::what_is_not_there_is_told(&*open(store, &object_store::fresh())).await;
}

#[tokio::test]
async fn damaged_content_reaches_nobody() {
    let Some(store) = object_store::shared("damaged content of an object store reaches nobody") else { return };
    let prefix = object_store::fresh();
    let damage = async |name: &str, bytes: Vec<u8>| {
        assert_eq!(store.file("PUT", &key(&prefix, name), &bytes).unwrap().0, 201);
    };
    contract::damaged_content_reaches_nobody(&*open(store, &prefix), damage).await;
}

#[tokio::test]
async fn the_same_content_put_by_many_at_once_is_there_once() {
    let Some(store) = object_store::shared("the same content put by many at once is in an object store once") else {
        return;
    };
    let prefix = object_store::fresh();
    let several: Vec<_> = (0..3).map(|_| open(store, &prefix)).collect();
    contract::the_same_content_put_by_many_at_once_is_there_once(&several).await;
}

#[tokio::test]
async fn a_list_in_pages_finds_each_once() {
    let Some(store) = object_store::shared("a list of an object store finds each once") else { return };
    let prefix = object_store::fresh();
    let blobs = open(store, &prefix);
    assert_eq!(blobs.list(None, 10).await.unwrap(), []);
    // What is no shared file is passed over.
    store.file("PUT", &format!("{prefix}/sha256/zz/other"), b"x").unwrap();
    store.file("PUT", &format!("{prefix}/sha256/0"), b"x").unwrap();
    contract::a_list_in_pages_finds_each_once(&*blobs, 1100).await;
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_put_is_never_half_there() {
    let Some(store) = object_store::shared("a file that changes while it is put is never half in an object store")
    else {
        return;
    };
    contract::a_file_that_changes_while_it_is_put_is_never_half_there(&*open(store, &object_store::fresh())).await;
}

#[tokio::test]
async fn one_that_is_put_again_is_as_young_as_a_new_one_and_is_not_sent_again() {
    let Some(store) = object_store::shared("an object that is put again is young and not sent again") else { return };
    let prefix = object_store::fresh();
    let blobs = open(store, &prefix);
    for length in [100_000, 9 << 20] {
        let content = Bytes::from(contract::content(length));
        let blob = blobs.put(content.clone()).await.unwrap();
        let first = written(store, &prefix, &blob);
        // Young still: it is looked at and left alone.
        let plain = Relay::plain(store.address);
        through(&plain, &prefix).put(content.clone()).await.unwrap();
        assert_eq!(written(store, &prefix, &blob), first);
        // Two days later: its age begins anew, and its content stays where it is.
        let relay = later(store, 48);
        let aged = through(&relay, &prefix);
        assert!(aged.list(None, 10).await.unwrap().iter().all(|found| found.age >= 47 * 3600));
        // The server counts in seconds.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        aged.put(content.clone()).await.unwrap();
        let second = written(store, &prefix, &blob);
        assert!(second > first, "{length} bytes were not made young: {first}, {second}");
        for relay in [&plain, &relay] {
            assert!(relay.sent.load(Ordering::SeqCst) < 50_000, "{length} bytes were sent again");
        }
        assert!(aged.read(&blob).await.unwrap() == content, "{length}");
        // One that was cut short is not taken for it.
        store.file("PUT", &key(&prefix, &hex::encode(blob.sha256)), b"cut").unwrap();
        blobs.put(content.clone()).await.unwrap();
        assert!(blobs.read(&blob).await.unwrap() == content, "{length}");
    }
}

/// A server that answers, and whose connections break anywhere, in both directions.
#[tokio::test]
async fn cut_connections_lose_and_change_nothing() {
    let Some(store) = object_store::shared("cut connections lose nothing in an object store") else { return };
    let prefix = object_store::fresh();
    let pieces = AtomicU64::new(0);
    // Pieces of a long body are many, so each try of a part gets through often enough.
    let relay = Relay::to(store.address, move |_, _| pieces.fetch_add(1, Ordering::SeqCst) % 311 != 310);
    let blobs = through(&relay, &prefix);
    let here = tempfile::tempdir().unwrap();
    let (source, target) = (here.path().join("source"), here.path().join("target"));
    let mut expected = Vec::new();
    for round in 0..4 {
        let large = contract::content((18 << 20) + round);
        fs::write(&source, &large).unwrap();
        let blob = blobs.put_file(&source).await.unwrap();
        blobs.fetch(&blob, &target).await.unwrap();
        assert!(fs::read(&target).unwrap() == large, "{round}");
        expected.push(blob);
        for number in 0..20 {
            let small = Bytes::from(format!("{round} {number}"));
            let blob = blobs.put(small.clone()).await.unwrap();
            assert_eq!(blobs.read(&blob).await.unwrap(), small);
            expected.push(blob);
        }
    }
    expected.sort_by_key(|blob| blob.sha256);
    let listed: Vec<Blob> = blobs.list(None, 1000).await.unwrap().iter().map(|found| found.blob).collect();
    assert_eq!(listed, expected);
    assert!(relay.cuts.load(Ordering::SeqCst) >= 5, "{:?} cuts", relay.cuts);
}

/// The server compares what it gets with the hash that was signed.
#[tokio::test]
async fn content_that_is_changed_on_its_way_is_refused_by_the_server_and_sent_again() {
    let Some(store) = object_store::shared("an object store compares what it gets with its hash") else { return };
    let prefix = object_store::fresh();
    for length in [500_000, 17 << 20] {
        let changes = Arc::new(AtomicU64::new(0));
        let relay = Relay::to(store.address, {
            let changes = changes.clone();
            move |way, bytes| {
                // A piece of a body; the head of a request is text.
                let is_body = !bytes.iter().take(50).all(|byte| byte.is_ascii_graphic() || b" \r\n".contains(byte));
                if way == Way::ToServer && is_body && changes.fetch_add(1, Ordering::SeqCst) == 0 {
                    bytes[0] ^= 1;
                }
                true
            }
        });
        let content = Bytes::from(contract::content(length));
        let blob = through(&relay, &prefix).put(content.clone()).await.unwrap();
        assert!(changes.load(Ordering::SeqCst) > 0, "nothing was changed");
        assert!(open(store, &prefix).read(&blob).await.unwrap() == content, "{length}");
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_told_and_used_again_when_it_is_back() {
    let Some(store) = object_store::shared("an object store that is away is used again") else { return };
    let relay = Relay::plain(store.address);
    let blobs = through(&relay, &object_store::fresh());
    let blob = blobs.put(Bytes::from_static(b"content")).await.unwrap();
    relay.away(true);
    let told = [
        blobs.put(Bytes::from_static(b"more")).await.map(drop).unwrap_err(),
        blobs.read(&blob).await.map(drop).unwrap_err(),
        blobs.list(None, 1).await.map(drop).unwrap_err(),
    ];
    for error in told {
        assert!(
            matches!(&error, Error::Unreachable { reason } if reason.contains(&relay.address.to_string())),
            "{error:?}"
        );
    }
    // Back within the tries of one call.
    let back = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        relay.away(false);
    };
    let (read, ()) = tokio::join!(blobs.read(&blob), back);
    assert_eq!(read.unwrap(), "content");
}

/// A sender that dies leaves parts, which cost room and are seen by nobody.
#[tokio::test]
async fn parts_that_a_dead_sender_left_are_not_seen_and_are_removed_after_a_day() {
    let Some(store) = object_store::shared("parts that a dead sender left are removed") else { return };
    let prefix = object_store::fresh();
    let uploads = || store.folder(".uploads").into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let dead = Arc::new(AtomicBool::new(false));
    let relay = Relay::to(store.address, {
        let dead = dead.clone();
        move |way, bytes| {
            let second = b"partNumber=2";
            if way == Way::ToServer && bytes.windows(second.len()).any(|found| found == second) {
                dead.store(true, Ordering::SeqCst);
            }
            !dead.load(Ordering::SeqCst)
        }
    });
    let before = uploads();
    let error = through(&relay, &prefix).put(Bytes::from(contract::content(20 << 20))).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let left = |before: &[String]| uploads().into_iter().filter(|name| !before.contains(name)).count();
    assert!(left(&before) >= 1, "nothing was left, so nothing is shown");
    for (hours, expected) in [(23, false), (25, true)] {
        assert_eq!(through(&later(store, hours), &prefix).list(None, 10).await.unwrap(), []);
        assert_eq!(left(&before) == 0, expected, "after {hours} hours");
    }
    // One that fails while its sender lives is removed at once.
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("source");
    fs::write(&source, contract::content(20 << 20)).unwrap();
    let relay = Relay::to(store.address, {
        let source = source.clone();
        move |way, bytes| {
            let second = b"partNumber=2";
            if way == Way::ToServer && bytes.windows(second.len()).any(|found| found == second) {
                let file = fs::File::options().write(true).open(&source).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, b"changed", 19 << 20).unwrap();
            }
            true
        }
    });
    let error = through(&relay, &prefix).put_file(&source).await.unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error:?}");
    assert_eq!(left(&before), 0);
    assert_eq!(open(store, &prefix).list(None, 10).await.unwrap(), []);
}

#[tokio::test]
async fn a_refusal_says_what_to_do_and_shows_no_key() {
    let Some(store) = object_store::shared("a refusal of an object store says what to do") else { return };
    let prefix = object_store::fresh();
    let given = variables(&store.endpoint(), &prefix);
    open(store, &prefix).put(Bytes::from_static(b"content")).await.unwrap();
    let with = |pairs: &[(&str, &str)]| {
        let mut given = given.clone();
        given.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        blobs::open(&place(&given)).unwrap()
    };
    let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    for (pairs, words) in [
        (&[(id, "wrong-id")][..], "correct s3_access_key_id (AWS_ACCESS_KEY_ID)"),
        (&[(secret, "wrong-secret")], "correct s3_secret_access_key (AWS_SECRET_ACCESS_KEY)"),
        (&[(id, READER.0), (secret, READER.1)], "the key may not write objects of the bucket (s3:PutObject)"),
        (&[("SKILL_RUNNER_BLOBS", "s3://missing/x")], "has no bucket missing; create it, or correct blobs"),
    ] {
        let blobs = with(pairs);
        let put = blobs.put(Bytes::from_static(b"new content")).await.map(drop).unwrap_err();
        for error in [put, blobs.check().await.map(drop).unwrap_err()] {
            let told = format!("{error} {error:?}");
            assert!(matches!(error, Error::Unusable { .. }) && told.contains(words), "{pairs:?}: {told}");
            for hidden in [KEY_ID, SECRET, READER.0, READER.1, "wrong-id", "wrong-secret"] {
                assert!(!told.contains(hidden), "{hidden}: {told}");
            }
            assert!(!format!("{blobs:?}").contains(SECRET));
        }
    }
    // A key that may only read does.
    let reader = with(&[(id, READER.0), (secret, READER.1)]);
    assert_eq!(reader.read(&contract::blob_of(b"content")).await.unwrap(), "content");
    let listed = reader.list(None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|found| found.blob).collect::<Vec<_>>(), [contract::blob_of(b"content")]);
}

#[tokio::test]
async fn a_check_leaves_nothing_and_a_file_with_keys_may_change() {
    let Some(store) = object_store::shared("a check of an object store leaves nothing") else { return };
    let prefix = object_store::fresh();
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("credentials");
    let mut given = variables(&store.endpoint(), &prefix);
    given.insert("SKILL_RUNNER_S3_CREDENTIALS_FILE".into(), file.display().to_string());
    let blobs = blobs::open(&place(&given)).unwrap();
    assert!(matches!(blobs.check().await.unwrap_err(), Error::Unreachable { .. }));
    let write = |secret: &str| {
        fs::write(&file, format!("[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {secret}\n"))
            .unwrap();
    };
    write("wrong");
    assert!(matches!(blobs.check().await.unwrap_err(), Error::Unusable { .. }));
    write(SECRET);
    let told = blobs.check().await.unwrap();
    assert_eq!(told, format!("the bucket s3://{BUCKET}/{prefix} at {}", store.endpoint()));
    assert_eq!(store.folder(&prefix), []);
}
