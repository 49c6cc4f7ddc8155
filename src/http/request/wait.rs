//! How many seconds a client wants to wait for a result: `?wait=30`, or `Prefer: wait=30`.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

use crate::http::request::query::whole_number;

/// How long an answer was held back because the client asked for it; an extension of the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited(pub(crate) Duration);

/// Longest wait; a longer one is cut to this.
pub(crate) const MAX_WAIT_SECONDS: u64 = 600;

/// `Prefer: wait=30`. Preferences are wishes: one that cannot be read is ignored.
pub(crate) fn preferred_wait(headers: &HeaderMap) -> Option<u64> {
    let values = headers.get_all("prefer").into_iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split([',', ';'])).filter_map(|part| part.split_once('='));
    let (_, seconds) = preferences.find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))?;
    whole_number(seconds.trim().trim_matches('"'))
}

/// Adds the header that confirms the client's preference.
pub(crate) fn preference_applied(response: &mut Response, seconds: u64) {
    if let Ok(applied) = HeaderValue::from_str(&format!("wait={seconds}")) {
        response.headers_mut().insert(HeaderName::from_static("preference-applied"), applied);
    }
}
