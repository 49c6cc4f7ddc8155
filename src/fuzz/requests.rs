//! Parts of HTTP requests.

use super::ways::way;
use crate::http::foreign;
use crate::supervisor::{end_of_head, read_head};

pub(super) const QUERY: &[&str] = &[
    "cursor=",
    "from_seq=",
    "to_seq=",
    "limit=",
    "wait=",
    "before=",
    "status=",
    "stream=stdout",
    "byte_from=",
    "byte_to=",
    "created_after=",
    "&",
    "=",
    "+",
    "%00",
    "%ff",
    "%",
    "18446744073709551616",
    "-1",
    "2026-01-01T00:00:00Z",
    "%20",
];
pub(super) const RANGE: &[&str] = &["bytes=", "-", ",", "0-0", "18446744073709551615", " ", "\t", "W/\"", "\"", "*"];
pub(super) const PROXY: &[&str] = &[
    "CONNECT ",
    "GET http://",
    "a.example",
    ":443",
    "[::1]",
    " HTTP/1.1",
    "\r\n",
    "\r\n\r\n",
    "Host: b",
    "\n",
    "\r",
    "@",
    "/",
    "?",
    "Proxy-Connection: x",
    "Transfer-Encoding: chunked",
];
pub(super) const HEADERS: &[&str] = &[
    "\nhost: ",
    "\norigin: ",
    "\ncookie: ",
    "\nauthorization: ",
    "\ntraceparent: ",
    "\nidempotency-key: ",
    "\nprefer: wait=",
    "\naccess-control-request-method: GET",
    "localhost",
    "[::1]",
    "a.example",
    ":8000",
    "http://",
    "https://app.example",
    "skill_runner_session",
    "_8000=",
    "; ",
    "@",
    ",",
    "Bearer ",
    "Basic YTpi",
    "null",
];
pub(super) const MULTIPART: &[&str] = &[
    "--EDGE\r\n",
    "--EDGE--\r\n",
    "\r\n\r\n",
    "content-disposition: form-data; name=\"file\"",
    "; filename=\"x.zip\"",
    "content-type: application/zip\r\n",
    "name=\"skill_package\"",
    "content-transfer-encoding: base64\r\n",
    "\r\n",
    "\"",
];
pub(super) const CREATE: &[&str] = &[
    "\"skill_id\":",
    "\"interaction_id\":",
    "\"response\":",
    "\"labels\":",
    "\"engine\":",
    "\"model\":",
    "\"input\":",
    "\"parameter\":",
    "\"runtime_options\":",
    "\"execution_mode\":",
    "\"no_cache\":",
    "\"engine_config\":",
    "null",
    "{}",
    "[]",
    "1e400",
    "\"\\u0000\"",
];

pub(super) fn query(bytes: &[u8]) -> u64 {
    way(foreign::query(&String::from_utf8_lossy(bytes)))
}

pub(super) fn range_header(bytes: &[u8]) -> u64 {
    let sizes = [0, 1, 10, u64::MAX];
    way(sizes.map(|size| {
        let part = foreign::range(bytes, size);
        if let Some(Some(part)) = &part {
            assert!(part.start < part.end && part.end <= size, "{part:?} of {size}");
        }
        part.map(|part| part.is_some())
    }))
}

/// What is passed on to a host is one head, with the host that was looked at and no other.
pub(super) fn proxy_head(bytes: &[u8]) -> u64 {
    let head = &bytes[..end_of_head(bytes).unwrap_or(bytes.len())];
    let Some(wanted) = read_head(head) else { return 0 };
    assert!(wanted.host.chars().all(|c| c.is_ascii_graphic() && c != '@'), "{}", wanted.host);
    let passed = wanted.head.as_deref().map(|head| str::from_utf8(head).unwrap());
    if let Some(passed) = passed {
        let (before, after) = passed.split_once("\r\n\r\n").unwrap();
        let lines: Vec<&str> = before.split("\r\n").collect();
        assert!(after.is_empty(), "{passed:?}");
        assert!(lines.iter().all(|line| !line.contains(['\r', '\n'])), "{passed:?}");
        let named = |line: &&&str| line.split(':').next().unwrap().trim().eq_ignore_ascii_case("host");
        assert_eq!(lines.iter().skip(1).filter(named).count(), 1, "{passed:?}");
    }
    way((wanted.port == 443, passed.map(|passed| passed.lines().count())))
}

pub(super) fn multipart(bytes: &[u8]) -> u64 {
    way(foreign::multipart(bytes))
}

pub(super) fn create_body(bytes: &[u8]) -> u64 {
    way(foreign::body(bytes).map(|wrong| wrong.map(|wrong| wrong.split(' ').take(8).collect::<String>())))
}

pub(super) fn headers(bytes: &[u8]) -> u64 {
    way(foreign::headers(bytes))
}
