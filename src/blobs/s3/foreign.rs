//! What a server of objects answers, for the fuzzer.

use ureq::http::{HeaderMap, HeaderName, HeaderValue};

use super::client::Answer;
use super::keys::parse;
use super::listing::as_listed;

const PREFIX: &str = "skill-runner/sha256/";

/// What is made of an answer with this text as its body and as the value of its headers: the error that it tells, and how many
/// shared files it lists.
pub(crate) fn answer(text: &str) -> (Option<String>, Option<i64>, usize) {
    let value = HeaderValue::from_str(text.lines().next().unwrap_or_default()).ok();
    let headers = ["date", "last-modified"].map(HeaderName::from_static).into_iter();
    let headers: HeaderMap = headers.filter_map(|name| Some((name, value.clone()?))).collect();
    let answer = Answer { status: 200, headers, body: text.into() };
    let now = answer.time();
    let _ = (answer.age_of("last-modified"), answer.clocks_apart());
    let page = answer.xml();
    let listed = page.iter().flat_map(|page| page.all("Contents")).filter_map(|found| as_listed(PREFIX, found, now));
    (answer.code(), now, listed.count())
}

/// Whether a file with keys has them.
pub(crate) fn has_keys(text: &str) -> bool {
    parse(text).is_some()
}
