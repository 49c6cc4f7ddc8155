//! Checks every request (host, token, origin) and gives every error its envelope.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;

use crate::http::answer::envelope::{finish, is_refusal};
use crate::http::answer::problem::Problem;
use crate::http::request::run_in_path::KnownRequest;
use crate::http::request::unread_body::UnreadBody;
use crate::http::state::app::{App, Changes};

/// Most bytes of path and query string.
const URI_MAX: usize = 16 * 1024;

/// Checks a request, answers it, and gives every error its envelope.
pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let known = KnownRequest::default();
    request.extensions_mut().insert(known.clone());
    let unread = UnreadBody::default();
    let seconds = app.orchestrator().settings().http.connections.body_timeout_seconds;
    let request = request.map(|body| unread.lend(body, Duration::from_secs(seconds)));
    let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let sends_when_told = request.headers().contains_key(header::EXPECT);
    let mut response = match check(&app, &request) {
        Ok(()) => caught(next.run(request)).await,
        Err(problem) => {
            drop(request);
            problem.into_response()
        }
    };
    if unread.timed_out() {
        response = Problem::BodyTimeout { seconds }.into_response();
    } else if is_refusal(&response) && (unread.was_begun() || !sends_when_told) {
        unread.discard().await;
    }
    let mut response = finish(response, known.0.get().copied());
    if is_chunked {
        // hyper hides a Content-Length beside it. Something before the service may have gone by that one and see a
        // request where this body ends, or the other way round: nothing on this connection is taken for a request again.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A panic in a handler is an internal error of this request; the connection stays open.
async fn caught(answer: impl Future<Output = Response>) -> Response {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| Problem::Panicked.into_response())
}

fn check(app: &App, request: &Request) -> Result<(), Problem> {
    let settings = &app.orchestrator().settings().http;
    let path = request.uri().path();
    if app.is_closing() && path != "/healthz" {
        return Err(Problem::Closing);
    }
    if request.uri().path().len() + request.uri().query().map_or(0, str::len) > URI_MAX {
        return Err(Problem::UriTooLong { limit: URI_MAX });
    }
    let host = one(request.headers(), &header::HOST).unwrap_or_default();
    // An authority in the request line overrides the Host header, so both must be allowed.
    let named = request.uri().authority().map_or(host, |authority| authority.as_str());
    for name in [host, named] {
        if !settings.allowed_hosts.iter().any(|allowed| is_host(allowed, name)) {
            return Err(Problem::ForbiddenHost { host: name.chars().take(100).collect() });
        }
    }
    let guarded = ["/v1", "/docs", "/metrics"].iter().any(|prefix| path.starts_with(prefix));
    if let Some(token) = settings.token.as_ref().filter(|_| guarded) {
        let given = one(request.headers(), &header::AUTHORIZATION).and_then(bearer).unwrap_or_default();
        if !equal(given.as_bytes(), token.expose().as_bytes()) {
            return Err(Problem::Unauthorized);
        }
    }
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    if !reads && app.changes() == Changes::Refused {
        let (method, path) = (request.method().to_string(), path.to_owned());
        return Err(Problem::MethodNotAllowed { method, path });
    }
    if !reads && request.headers().contains_key(header::ORIGIN) {
        let origin = one(request.headers(), &header::ORIGIN).unwrap_or_default();
        let own = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
        if !own {
            return Err(Problem::ForbiddenOrigin { origin: origin.chars().take(100).collect() });
        }
    }
    percent_encoded(path, "path")?;
    percent_encoded(request.uri().query().unwrap_or_default(), "query string")
}

/// The header's value, if it is there once and is text.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether an entry of the allow list names this host; the port is free unless the entry has one.
fn is_host(allowed: &str, host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && !name.is_empty() => name,
        Some(_) | None => host,
    };
    let matches = |name: &str| match allowed.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => name.len() > suffix.len() && name.to_ascii_lowercase().ends_with(&suffix.to_ascii_lowercase()),
        None => name.eq_ignore_ascii_case(allowed),
    };
    !host.is_empty() && (matches(host) || matches(without_port))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Required to change what is installed: the login of the user interface, if one is configured and the service has no
/// token. With a token, the request has already shown it.
pub(crate) struct LoggedIn;

impl FromRequestParts<App> for LoggedIn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let settings = &app.orchestrator().settings().http;
        let (Some(login), None) = (&settings.ui_login, &settings.token) else { return Ok(Self) };
        let wanted = format!("{}:{}", login.username, login.password.expose());
        let given = one(&parts.headers, &header::AUTHORIZATION).and_then(basic).unwrap_or_default();
        if equal(&given, wanted.as_bytes()) { Ok(Self) } else { Err(Problem::LoginNeeded) }
    }
}

fn basic(value: &str) -> Option<Vec<u8>> {
    let (scheme, coded) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(coded.trim()).ok())?
}

/// Compares in constant time, so that the time does not reveal where the difference is.
fn equal(given: &[u8], wanted: &[u8]) -> bool {
    let mut difference = u8::from(given.len() != wanted.len());
    for (i, byte) in wanted.iter().enumerate() {
        difference |= byte ^ given.get(i).copied().unwrap_or_default();
    }
    std::hint::black_box(difference) == 0
}

fn percent_encoded(text: &str, part: &str) -> Result<(), Problem> {
    let bytes = text.as_bytes();
    let broken = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'%')
        .any(|(at, _)| !bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)));
    if broken {
        let message = format!("the {part} has a % that is not followed by two hexadecimal digits");
        return Err(Problem::InvalidRequest { message, details: Vec::new() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_allowed_by_name_with_any_port_and_by_nothing_else() {
        for (allowed, host, expected) in [
            ("localhost", "localhost", true),
            ("localhost", "LOCALHOST:8000", true),
            ("localhost", "localhost.evil.example", false),
            ("localhost", "", false),
            ("localhost", ":8000", false),
            ("[::1]", "[::1]", true),
            ("[::1]", "[::1]:8000", true),
            ("[::1]", "[::2]:8000", false),
            ("a.example:81", "a.example:81", true),
            ("a.example:81", "a.example:82", false),
            ("*.example", "a.example:1", true),
            ("*.example", ".example", false),
            ("*", "anything", true),
        ] {
            assert_eq!(is_host(allowed, host), expected, "{allowed} {host}");
        }
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_an_internal_error_with_a_log_id() {
        let panicking = async {
            if true {
                panic!("a mistake in a handler");
            }
            ().into_response()
        };
        let response = finish(caught(panicking).await, None);
        assert_eq!(response.status().as_u16(), 500);
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["code"], "INTERNAL");
        assert!(body["error"]["details"]["log_id"].is_string());
        assert!(!body.to_string().contains("mistake"), "the cause is for the log alone");
    }

    #[test]
    fn tokens_are_equal_only_when_every_byte_is() {
        assert!(equal(b"secret", b"secret"));
        for given in [&b""[..], b"secre", b"secret1", b"Secret", b"xxxxxx"] {
            assert!(!equal(given, b"secret"));
        }
    }
}
