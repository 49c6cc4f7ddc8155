//! The headers that every answer has, so that no browser takes it for more than it is.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Each is added where the answer has none of its own.
pub(crate) const ALWAYS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // What a run said is no business of a cache.
    (header::CACHE_CONTROL, "no-store"),
];

pub(crate) fn add_to(headers: &mut HeaderMap) {
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}
