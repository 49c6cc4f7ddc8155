//! The page that a request comes from, as far as the browser tells, and the answers that pages of other origins may read (CORS).

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;

use crate::http::answer::problem::Problem;
use crate::http::server::header::one;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const PRIVATE_NETWORK_ASKED: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

const METHODS: &str = "GET, HEAD, POST, DELETE";
/// The headers that routes read, and those by which traces are joined.
const HEADERS: &str = "authorization, content-type, idempotency-key, if-none-match, if-range, last-event-id, prefer, range, \
    traceparent, tracestate, x-request-id";
/// The headers of answers that pages may read besides those that they always may.
const EXPOSED: &str = "accept-ranges, content-disposition, content-range, deprecation, etag, link, location, \
    preference-applied, retry-after, sunset, www-authenticate, x-request-id";
/// How long a browser need not ask again, in seconds.
const PREFLIGHT_AGE: &str = "600";

/// Where a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From no page, or from one that the browser does not name.
    None,
    /// From a page of this service.
    Own,
    /// From a page of an origin in the setting `allowed_origins`.
    Listed(HeaderValue),
    /// From any other page.
    Foreign,
}

impl Origin {
    /// The origin that a request names. One that is given twice, or is no text, is foreign.
    pub(crate) fn of(headers: &HeaderMap, listed: &[String]) -> Self {
        let Some(value) = headers.get(header::ORIGIN) else { return Self::None };
        let Some(text) = one(headers, &header::ORIGIN) else { return Self::Foreign };
        let host = one(headers, &header::HOST).unwrap_or_default();
        let own = text.split_once("://").is_some_and(|(scheme, authority)| {
            ["http", "https"].contains(&scheme) && authority.eq_ignore_ascii_case(host)
        });
        if own {
            Self::Own
        } else if listed.iter().any(|origin| plain(origin) == plain(text)) {
            Self::Listed(value.clone())
        } else {
            Self::Foreign
        }
    }

    /// Adds what lets pages of a listed origin read an answer. Cookies are for the service's own pages: there is no header that
    /// would let other pages use them.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap, listed: &[String]) {
        if !listed.is_empty() {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        if let Self::Listed(origin) = self {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        }
    }
}

/// An origin without the port that its scheme has anyway, in small letters.
fn plain(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let port = if origin.starts_with("https:") { ":443" } else { ":80" };
    origin.strip_suffix(port).unwrap_or(&origin).to_owned()
}

/// The answer to a browser that asks whether a page may send a request; none if it does not ask that. It has no credentials yet.
pub(crate) fn preflight(method: &Method, headers: &HeaderMap, origin: &Origin) -> Option<Result<Response, Problem>> {
    if *method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    match origin {
        Origin::None => None,
        Origin::Own | Origin::Foreign => Some(Err(foreign(headers))),
        Origin::Listed(_) => {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = StatusCode::NO_CONTENT;
            let to = answer.headers_mut();
            to.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
            to.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(HEADERS));
            to.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_AGE));
            let vary = "access-control-request-method, access-control-request-headers";
            to.append(header::VARY, HeaderValue::from_static(vary));
            if headers.contains_key(PRIVATE_NETWORK_ASKED) {
                to.insert(PRIVATE_NETWORK, HeaderValue::from_static("true"));
            }
            Some(Ok(answer))
        }
    }
}

/// The refusal of a request that comes from a foreign page.
pub(crate) fn foreign(headers: &HeaderMap) -> Problem {
    let origin = one(headers, &header::ORIGIN).unwrap_or_default();
    Problem::ForbiddenOrigin { origin: origin.chars().take(100).collect() }
}

/// Whether the browser says that a page of another origin sends this. Browsers tell that over TLS and on this machine alone.
pub(crate) fn is_of_other_page(headers: &HeaderMap) -> bool {
    one(headers, &SEC_FETCH_SITE).is_some_and(|site| ["cross-site", "same-site"].contains(&site))
}

/// Whether the browser says that a page of this service sends this.
pub(crate) fn is_of_own_page(headers: &HeaderMap) -> bool {
    one(headers, &SEC_FETCH_SITE) == Some("same-origin")
}

/// Whether a browser sent this. Asked for a name and password in its own way, it would open a dialog before the log-in page.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    let agent = one(headers, &header::USER_AGENT).unwrap_or_default();
    headers.contains_key(SEC_FETCH_MODE) || agent.starts_with("Mozilla/")
}

/// Whether a person opens an address in a browser, and a page is the answer to expect.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    one(headers, &header::ACCEPT).is_some_and(|accepted| accepted.contains("text/html"))
}

/// Whether the browser's side of the connection is encrypted: its page says so, or the proxy before the service does.
pub(crate) fn is_over_tls(parts: &Parts) -> bool {
    let of_page = one(&parts.headers, &header::ORIGIN).is_some_and(|origin| origin.starts_with("https://"));
    of_page || one(&parts.headers, &FORWARDED_PROTO).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_own_by_its_host_listed_by_all_of_it_and_else_foreign() {
        let listed = ["https://app.example".to_owned(), "http://localhost:5173".to_owned()];
        for (origin, expected) in [
            ("http://127.0.0.1:8000", "own"),
            ("https://127.0.0.1:8000", "own"),
            ("http://127.0.0.1:8001", "foreign"),
            ("https://app.example", "listed"),
            ("HTTPS://APP.example", "listed"),
            ("https://app.example:443", "listed"),
            ("http://app.example", "foreign"),
            ("https://app.example:444", "foreign"),
            ("https://app.example.evil", "foreign"),
            ("https://evil.app.example", "foreign"),
            ("http://localhost:5173", "listed"),
            ("http://localhost", "foreign"),
            ("file://127.0.0.1:8000", "foreign"),
            ("null", "foreign"),
            ("", "foreign"),
        ] {
            let given = [(header::HOST, "127.0.0.1:8000"), (header::ORIGIN, origin)];
            let headers =
                given.map(|(name, value)| (name, HeaderValue::from_str(value).unwrap())).into_iter().collect();
            let found = match Origin::of(&headers, &listed) {
                Origin::None => "none",
                Origin::Own => "own",
                Origin::Listed(_) => "listed",
                Origin::Foreign => "foreign",
            };
            assert_eq!(found, expected, "{origin}");
        }
        assert_eq!(Origin::of(&HeaderMap::new(), &listed), Origin::None);
    }
}
