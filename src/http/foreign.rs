//! The parsers of requests, for the fuzzer: what they make of any bytes.

use std::ops::Range;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use bytes::Bytes;
use futures_util::{FutureExt, stream};

use super::answer::problem::Problem;
use super::attachment;
use super::jobs::create::{idempotency_key, trace_parent};
use super::jobs::interaction::Reply;
use super::request::query::Query;
use super::request::wait::preferred_wait;
use super::request::{json_body, multipart};
use super::server::cookie;
use super::server::grant::{basic, bearer};
use super::server::header::one;
use super::server::host::is_allowed;
use super::server::origin::{Origin, preflight};
use crate::orchestrator::CreateRequest;

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

/// Names by which the service is known here, and pages that may use it.
const HOSTS: [&str; 3] = ["localhost", "[::1]", "*.example"];
const LISTED: &str = "https://app.example";
/// Most headers that are read.
const HEADERS_MAX: usize = 100;

/// Which headers of a request count, given as lines of `name: value`. One that lets a client in is exactly what it has to be.
pub(crate) fn headers(lines: &[u8]) -> Vec<bool> {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').take(HEADERS_MAX) {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':').unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let host = one(&headers, &header::HOST).unwrap_or_default();
    let allowed = is_allowed(&HOSTS.map(str::to_owned), host);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    assert!(!allowed || host.bytes().all(plain), "{host:?}");
    let host = host.to_lowercase();
    let named = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map_or(host.as_str(), |(name, _)| name);
    assert!(!allowed || ["localhost", "[::1]"].contains(&named) || named.ends_with(".example"), "{host:?}");

    let listed = [LISTED.to_owned()];
    let origin = Origin::of(&headers, &listed);
    let text = one(&headers, &header::ORIGIN).unwrap_or_default().to_lowercase();
    match &origin {
        Origin::None => assert!(!headers.contains_key(header::ORIGIN)),
        Origin::Own => assert!([format!("http://{host}"), format!("https://{host}")].contains(&text), "{text:?}"),
        Origin::Listed(_) => assert!([LISTED.to_owned(), format!("{LISTED}:443")].contains(&text), "{text:?}"),
        Origin::Foreign => {}
    }
    let asked = preflight(&Method::OPTIONS, &headers, &origin);
    assert!(!matches!(asked, Some(Ok(_))) || matches!(origin, Origin::Listed(_)), "{origin:?}");

    let session = cookie::given(&headers);
    let told = |session: &str| {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        lines.into_iter().any(|line| line.contains(&format!("={session}")))
    };
    assert!(session.is_none_or(told), "{session:?}");
    let authorization = one(&headers, &header::AUTHORIZATION);
    let trace = trace_parent(&headers);
    assert!(trace.as_ref().is_none_or(|trace| trace.len() == 55 && trace.is_ascii()), "{trace:?}");
    let key = idempotency_key(&headers);
    let is_key = |key: &String| (1..=256).contains(&key.len()) && key.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    assert!(key.as_ref().ok().and_then(Option::as_ref).is_none_or(is_key), "{key:?}");
    vec![
        allowed,
        origin == Origin::Own,
        matches!(origin, Origin::Listed(_)),
        asked.is_some(),
        session.is_some(),
        authorization.and_then(bearer).is_some(),
        authorization.and_then(basic).is_some(),
        trace.is_some(),
        key.is_err(),
        preferred_wait(&headers).is_some(),
    ]
}

/// What is wrong with a body as the request of a run, and as an answer to a question.
pub(crate) fn body(bytes: &[u8]) -> [Option<String>; 2] {
    [
        json_body::parse::<CreateRequest>(bytes).err().map(what_is_wrong),
        json_body::parse::<Reply>(bytes).err().map(what_is_wrong),
    ]
}

/// The message; its place is a JSON pointer.
fn what_is_wrong(problem: Problem) -> String {
    if let Problem::InvalidRequest { details, .. } = &problem {
        for place in details {
            assert!(place.path.is_empty() || place.path.starts_with('/'), "{place:?}");
        }
    }
    problem.to_string()
}
