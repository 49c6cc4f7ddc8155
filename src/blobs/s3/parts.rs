//! A long object is sent in parts, each with its own hash, and is there when all of them are. Uploads that were not completed are removed.

use std::io::{self, Read};

use jiff::Timestamp;
use tracing::{info, warn};

use super::client::{PIECE, Request, age};
use super::object::{MAY_WRITE, Objects};
use super::refusal::refused;
use super::xml::encoded;
use crate::blobs::content::Passed;
use crate::blobs::error::Error;
use crate::blobs::shared::Blob;
use crate::domain::causes::chain;

/// What servers allow.
const PARTS_MAX: u64 = 10_000;
/// Longest name of a part that is repeated when all are put together.
const TAG_MAX: usize = 1024;
/// Most uploads that are aborted at once; the others have their turn later.
const ABORTED_MAX: usize = 1000;
/// After so long, an upload is one that its sender did not live to complete.
const ABANDONED_SECONDS: u64 = 24 * 60 * 60;

/// Sends all that is read, if it is this; else nothing is there afterwards.
pub(super) fn put(
    objects: &Objects,
    blob: &Blob,
    from: &mut impl Read,
    unreadable: impl Fn(io::Error) -> Error,
    changed: impl Fn() -> Error,
) -> Result<(), Error> {
    let key = objects.key(blob);
    let headers = [("content-type", "application/octet-stream".to_owned())];
    let begin = Request { query: &[("uploads", "")], headers: &headers, body: Some(b""), ..Request::new("POST", &key) };
    let answer = objects.client.ask(begin)?;
    let upload = answer.xml().filter(|_| answer.status == 200);
    let Some(upload) = upload.as_ref().and_then(|upload| upload.text_of("UploadId")) else {
        return Err(refused(&objects.client, &answer, MAY_WRITE));
    };
    let sent = send_all(objects, blob, &key, upload, from, &unreadable, &changed);
    if sent.is_err()
        && let Err(error) = abort(objects, &key, upload)
    {
        warn!(error = %chain(&error), "parts of a shared file stay in the bucket; they are removed after a day");
    }
    sent
}

fn send_all(
    objects: &Objects,
    blob: &Blob,
    key: &str,
    upload: &str,
    from: &mut impl Read,
    unreadable: &impl Fn(io::Error) -> Error,
    changed: &impl Fn() -> Error,
) -> Result<(), Error> {
    let size = PIECE.max(blob.size.div_ceil(PARTS_MAX));
    let (mut passed, mut list) = (Passed::default(), String::new());
    for number in 1_u64.. {
        let part = next(from, size).map_err(unreadable)?;
        if part.is_empty() {
            break;
        }
        passed.add(&part);
        if passed.is_beyond(blob) {
            return Err(changed());
        }
        let tag = send_part(objects, key, upload, number, &part)?;
        list += &format!("<Part><PartNumber>{number}</PartNumber><ETag>{}</ETag></Part>", encoded(&tag));
    }
    passed.check(blob).map_err(|_| changed())?;
    complete(objects, blob, key, upload, &list)
}

fn send_part(objects: &Objects, key: &str, upload: &str, number: u64, part: &[u8]) -> Result<String, Error> {
    let number = number.to_string();
    let query = [("partNumber", number.as_str()), ("uploadId", upload)];
    let answer = objects.client.ask(Request { query: &query, body: Some(part), ..Request::new("PUT", key) })?;
    match answer.header("etag").filter(|tag| answer.status == 200 && tag.len() <= TAG_MAX) {
        Some(tag) => Ok(tag.to_owned()),
        None => Err(refused(&objects.client, &answer, MAY_WRITE)),
    }
}

fn complete(objects: &Objects, blob: &Blob, key: &str, upload: &str, list: &str) -> Result<(), Error> {
    let body = format!(
        "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{list}</CompleteMultipartUpload>"
    );
    let headers = [("content-type", "application/xml".to_owned())];
    let query = [("uploadId", upload)];
    let request =
        Request { query: &query, headers: &headers, body: Some(body.as_bytes()), ..Request::new("POST", key) };
    let answer = objects.client.ask(request)?;
    match (answer.status, answer.code().as_deref()) {
        (200, None) => Ok(()),
        // The answer to an earlier try may have been lost.
        (404, Some("NoSuchUpload")) if objects.is_there(blob)? => Ok(()),
        _ => Err(refused(&objects.client, &answer, MAY_WRITE)),
    }
}

fn abort(objects: &Objects, key: &str, upload: &str) -> Result<(), Error> {
    let answer = objects.client.ask(Request { query: &[("uploadId", upload)], ..Request::new("DELETE", key) })?;
    match answer.status {
        200 | 204 | 404 => Ok(()),
        _ => Err(refused(&objects.client, &answer, "abort uploads (s3:AbortMultipartUpload)")),
    }
}

/// Removes uploads that nobody will complete.
pub(super) fn remove_abandoned(objects: &Objects) -> Result<(), Error> {
    let prefix = objects.all();
    let query = [("uploads", ""), ("prefix", prefix.as_str())];
    let answer = objects.client.ask(Request { query: &query, ..Request::new("GET", "") })?;
    let Some(list) = answer.xml().filter(|_| answer.status == 200) else {
        let doing = "list uploads (s3:ListBucketMultipartUploads)";
        return Err(refused(&objects.client, &answer, doing));
    };
    for upload in list.all("Upload").take(ABORTED_MAX) {
        let (Some(key), Some(id)) = (upload.text_of("Key"), upload.text_of("UploadId")) else { continue };
        let begun = upload.text_of("Initiated").and_then(|time| time.parse::<Timestamp>().ok());
        let age = age(answer.time(), begun.map(Timestamp::as_second));
        if objects.is_own(key) && age > ABANDONED_SECONDS {
            abort(objects, key, id)?;
            info!(key, age, "the parts of an upload that was not completed are removed");
        }
    }
    Ok(())
}

/// The next bytes, so many as there are, at most `size`.
pub(super) fn next(from: &mut impl Read, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}
