//! Sends a file as an attachment, with ETag and ranges, in bounded memory.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use async_stream::try_stream;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::Stream;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::http::answer::problem::Problem;
use crate::http::request::query::whole_number;
use crate::http::state::export_room::HeldExport;
use crate::http::state::task::blocking;
use crate::orchestrator::{Error, ProvenContent, ProvenRun};

/// Bytes read from the file at once.
const CHUNK_BYTES: u64 = 256 * 1024;

/// What the header of an attachment encodes: all but the unreserved characters of URLs.
const NOT_IN_ATTACHMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An open file and its metadata.
pub(crate) struct FileAnswer {
    file: File,
    size: u64,
    filename: String,
    mime: String,
    sha256: Option<String>,
    /// All of it, where it was read already.
    read: Option<Bytes>,
    /// Whom to tell, and of which file, if what is sent turns out not to hash to `sha256`.
    proven: Option<(ProvenRun, String)>,
    /// Room on the disk, given back when all is sent.
    held: Option<HeldExport>,
}

impl FileAnswer {
    pub(crate) fn new(file: File, filename: String, mime: String, sha256: Option<String>) -> Result<Self, Problem> {
        let size = file.metadata().map_err(Error::io(format!("look at {filename}")))?.len();
        Ok(Self { file, size, filename, mime, sha256, read: None, proven: None, held: None })
    }

    /// A file of a finished run, which was just held against the run's proof.
    pub(crate) fn proven(content: ProvenContent, proven: ProvenRun, path: String) -> Self {
        let ProvenContent { file, size, sha256, bytes } = content;
        let (filename, mime) = (String::new(), String::new());
        Self { file, size, filename, mime, sha256, read: bytes, proven: Some((proven, path)), held: None }
    }

    /// The same, which holds this until all is sent or given up.
    #[must_use]
    pub(crate) fn holding(self, held: HeldExport) -> Self {
        Self { held: Some(held), ..self }
    }

    /// The same with this name and type.
    #[must_use]
    pub(crate) fn named(self, filename: String, mime: String) -> Self {
        Self { filename, mime, ..self }
    }
}

/// The file, or the part of it that the client asks for.
pub(crate) fn answer(answer: FileAnswer, asked: &HeaderMap) -> Result<Response, Problem> {
    let FileAnswer { file, size, filename, mime, sha256, read, proven, held } = answer;
    let etag = sha256.as_ref().map(|sha256| format!("\"{sha256}\""));
    let mut headers = HeaderMap::new();
    let mut set = |name, value: &str| headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
    if let Some(etag) = &etag {
        set(header::ETAG, etag);
    }
    if let Some(etag) = &etag
        && is_known(asked, etag)
    {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    let range = match range(asked, etag.as_deref(), size) {
        Wanted::All => None,
        Wanted::Part(range) => Some(range),
        Wanted::Nothing => return Err(Problem::RangeNotSatisfiable { size }),
    };
    set(header::ACCEPT_RANGES, "bytes");
    set(header::CONTENT_DISPOSITION, &attachment(&filename));
    // A skill chooses the type; a browser must neither guess another one nor run the content.
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::CONTENT_SECURITY_POLICY, "sandbox");
    let part = range.clone().unwrap_or(0..size);
    set(header::CONTENT_LENGTH, &(part.end - part.start).to_string());
    if let Some(range) = &range {
        set(header::CONTENT_RANGE, &format!("bytes {}-{}/{size}", range.start, range.end - 1));
    }
    let mime = HeaderValue::from_str(&mime).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_TYPE, mime);
    let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    if let Some(read) = read {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(read.len());
        return Ok((status, headers, Body::from(read.slice(place(part.start)..place(part.end)))).into_response());
    }
    // A part of a file has no hash of its own; it was compared as a whole before.
    let check = sha256.zip(proven).filter(|_| part == (0..size));
    Ok((status, headers, Body::from_stream(bytes(file, part, check, held))).into_response())
}

/// What a file that is sent must hash to; else whom to tell, and of which file.
type Check = (String, (ProvenRun, String));

/// The bytes of a file. If they are not what they must be, the last of them are not sent: the client sees a cut answer.
fn bytes(
    file: File,
    part: Range<u64>,
    check: Option<Check>,
    held: Option<HeldExport>,
) -> impl Stream<Item = Result<Bytes, Problem>> {
    let file = Arc::new(file);
    try_stream! {
        let _held = held;
        let mut at = part.start;
        let mut hash = Sha256::new();
        while at < part.end {
            let len = (part.end - at).min(CHUNK_BYTES);
            let file = file.clone();
            let chunk = blocking(move || {
                let mut chunk = vec![0; usize::try_from(len).unwrap_or_default()];
                file.read_exact_at(&mut chunk, at).map_err(Error::io("read a file that is being sent"))?;
                Ok::<_, Error>(Bytes::from(chunk))
            })
            .await?;
            at += len;
            if let Some((expected, (proven, path))) = &check {
                hash.update(&chunk);
                if at == part.end && hex::encode(hash.clone().finalize()) != *expected {
                    Err(proven.changed_meanwhile(path))?;
                }
            }
            yield chunk;
        }
    }
}

/// Whether the client already has this content.
fn is_known(asked: &HeaderMap, etag: &str) -> bool {
    let values = asked.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Part(Range<u64>),
    Nothing,
}

/// The requested range. HTTP says that a header that is not understood, and one with several ranges, mean the whole file.
fn range(asked: &HeaderMap, etag: Option<&str>, size: u64) -> Wanted {
    let Some(value) = asked.get(header::RANGE).and_then(|value| value.to_str().ok()) else { return Wanted::All };
    if let Some(condition) = asked.get(header::IF_RANGE)
        && condition.to_str().ok() != etag
    {
        return Wanted::All;
    }
    let Some((first, last)) = value.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-')) else {
        return Wanted::All;
    };
    let range = match (first, last, whole_number(first), whole_number(last)) {
        ("", _, _, Some(suffix)) => size.saturating_sub(suffix)..size,
        (_, "", Some(first), _) => first..size,
        (_, _, Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(size),
        _ => return Wanted::All,
    };
    if range.start < range.end { Wanted::Part(range) } else { Wanted::Nothing }
}

/// The same for any bytes of the header: all, a part, or nothing that can be had.
#[cfg(any(test, fuzzing))]
pub(crate) fn asked(asked: &HeaderMap, size: u64) -> Option<Option<Range<u64>>> {
    match range(asked, None, size) {
        Wanted::All => None,
        Wanted::Part(part) => Some(Some(part)),
        Wanted::Nothing => Some(None),
    }
}

/// The file name for the client: plain ASCII for old clients, the exact one in UTF-8 for the others.
fn attachment(filename: &str) -> String {
    let plain = |character: char| match character {
        ' '..='~' if !"\"\\%/;".contains(character) => character,
        _ => '_',
    };
    let fallback: String = filename.chars().map(plain).collect();
    let encoded = utf8_percent_encode(filename, NOT_IN_ATTACHMENT);
    format!("attachment; filename=\"{fallback}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_served_and_everything_else_means_all_or_nothing() {
        let wanted = |value: &str, size| {
            let headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_str(value).unwrap())]);
            range(&headers, None, size)
        };
        assert_eq!(wanted("bytes=0-0", 10), Wanted::Part(0..1));
        assert_eq!(wanted("bytes=2-", 10), Wanted::Part(2..10));
        assert_eq!(wanted("bytes=2-99", 10), Wanted::Part(2..10));
        assert_eq!(wanted("bytes=-3", 10), Wanted::Part(7..10));
        assert_eq!(wanted("bytes=-99", 10), Wanted::Part(0..10));
        assert_eq!(wanted("bytes=0-18446744073709551615", 10), Wanted::Part(0..10));
        for nothing in ["bytes=10-", "bytes=99-100", "bytes=-0"] {
            assert_eq!(wanted(nothing, 10), Wanted::Nothing, "{nothing}");
        }
        assert_eq!(wanted("bytes=0-0", 0), Wanted::Nothing);
        for all in ["bytes=5-2", "bytes=-", "bytes=a-b", "bytes=0-1,3-4", "lines=0-1", "bytes=+1-2", ""] {
            assert_eq!(wanted(all, 10), Wanted::All, "{all}");
        }
    }

    #[test]
    fn a_filename_cannot_leave_its_quotes() {
        assert_eq!(attachment("a b.txt"), "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt");
        assert_eq!(attachment("ä\"\r\n;x"), "attachment; filename=\"_____x\"; filename*=UTF-8''%C3%A4%22%0D%0A%3Bx");
    }
}
