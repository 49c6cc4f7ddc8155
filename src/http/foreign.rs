//! The parsers of requests, for the fuzzer: what they make of any bytes.

use std::ops::Range;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use futures_util::{FutureExt, stream};

use super::attachment;
use super::request::multipart;
use super::request::query::Query;

/// Which kinds of values a query string has, or that it is refused.
pub(crate) fn query(text: &str) -> Vec<bool> {
    let read = || Query::parse(text);
    vec![
        read().is_ok(),
        read().and_then(|mut query| query.whole("cursor")).is_ok(),
        read().and_then(|mut query| query.limit("limit", 10, 500)).is_ok(),
        read().and_then(|mut query| query.time("created_after")).is_ok(),
        read().and_then(Query::finish).is_ok(),
    ]
}

/// The part of a file of this size that a header asks for: all, a range, or none that can be had.
pub(crate) fn range(value: &[u8], size: u64) -> Option<Option<Range<u64>>> {
    let value = HeaderValue::from_bytes(value).ok()?;
    attachment::asked(&HeaderMap::from_iter([(header::RANGE, value)]), size)
}

/// How many parts a body has and how long they are, until it ends or breaks. It comes in pieces of any length.
pub(crate) fn multipart(bytes: &[u8]) -> (Vec<usize>, bool) {
    let (size, body) = bytes.split_first().map_or((1, bytes), |(first, rest)| (usize::from(*first).max(1), rest));
    let pieces: Vec<_> =
        body.chunks(size).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
    let request = Request::builder().header(header::CONTENT_TYPE, "multipart/form-data; boundary=EDGE");
    let Ok(request) = request.body(Body::from_stream(stream::iter(pieces))) else { return (Vec::new(), false) };
    let read = async {
        let mut lengths = Vec::new();
        let Ok(mut parts) = multipart::multipart(request).await else { return (lengths, false) };
        loop {
            match parts.next_field().await {
                Ok(Some(mut field)) => {
                    let mut length = field.name().map_or(0, str::len);
                    loop {
                        match field.chunk().await {
                            Ok(Some(chunk)) => length += chunk.len(),
                            Ok(None) => break,
                            Err(_) => return (lengths, false),
                        }
                    }
                    lengths.push(length);
                }
                Ok(None) => return (lengths, true),
                Err(_) => return (lengths, false),
            }
        }
    };
    // Everything is there, so it never waits.
    read.now_or_never().unwrap_or_default()
}
