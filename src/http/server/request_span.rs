//! A tracing span around every request, so that each line logged for it carries the request's id and its run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug, error, error_span, info, warn};
use uuid::Uuid;

use crate::http::answer::envelope::Cause;
use crate::http::request::wait::Waited;
use crate::http::state::app::App;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_MAX: usize = 128;
/// An answer that took longer, apart from the wait that the client asked for, is logged as slow.
const SLOW: Duration = Duration::from_secs(10);

/// What lines about requests are marked with: they go to a file of their own.
pub(crate) const ACCESS_TARGET: &str = "skill_runner::access";

/// The name of the token that a request came with, kept with its answer.
#[derive(Debug, Clone)]
pub(crate) struct AskedBy(pub(crate) Option<String>);

/// Answers a request inside its span, logs how that went, and returns the request's id as `x-request-id`.
pub(crate) async fn trace(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = given_id(request.headers()).unwrap_or_else(new_id);
    let path = request.extensions().get::<MatchedPath>().cloned();
    let route = path.as_ref().map_or("none", MatchedPath::as_str);
    let method = method_label(request.method());
    // At the level of errors, so that no log level removes the id from the lines it leaves.
    let span = error_span!(
        "request",
        http.request_id = id.to_str().unwrap_or_default(),
        http.method = %request.method(),
        http.route = route,
        run.id = Empty,
    );
    // Without its query, which is nobody's business.
    let asked = request.uri().path().to_owned();
    let began = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let took = began.elapsed();
    app.orchestrator().metrics().answered(method, route, response.status().as_str(), took);
    span.in_scope(|| log_answer(&response, took));
    log_access(&response, method, &asked, &id, took);
    response.headers_mut().insert(REQUEST_ID, id);
    response.map(|body| Body::new(SpannedBody { body, span }))
}

/// A method as a label: anybody can make up as many as he likes.
fn method_label(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

/// The client's own id, if it sent one that can be logged and returned as it is.
fn given_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut values = headers.get_all(REQUEST_ID).iter();
    let value = values.next()?;
    let is_visible = value.as_bytes().iter().all(u8::is_ascii_graphic);
    let is_well_formed = is_visible && (1..=REQUEST_ID_MAX).contains(&value.len());
    (is_well_formed && values.next().is_none()).then(|| value.clone())
}

fn new_id() -> HeaderValue {
    let mut text = Uuid::encode_buffer();
    let text = Uuid::now_v7().hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("none"))
}

fn log_answer(response: &Response, took: Duration) {
    let status = response.status().as_u16();
    let duration_ms = took.as_millis();
    let waited = response.extensions().get::<Waited>().map_or(Duration::ZERO, |waited| waited.0);
    if let Some(cause) = response.extensions().get::<Arc<Cause>>() {
        error!(status, duration_ms, log.id = %cause.log_id, error = cause.text, "the request failed");
    } else if response.status().is_server_error() {
        warn!(status, duration_ms, "the request was not served");
    } else if took.saturating_sub(waited) > SLOW {
        warn!(status, duration_ms, "the request was slow");
    } else {
        debug!(status, duration_ms, "the request was answered");
    }
}

/// The line of the access log.
fn log_access(response: &Response, method: &str, path: &str, id: &HeaderValue, took: Duration) {
    let by = response.extensions().get::<AskedBy>().and_then(|AskedBy(name)| name.as_deref()).unwrap_or("-");
    let bytes = response.body().size_hint().exact().map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    info!(
        target: ACCESS_TARGET,
        method,
        path,
        status = response.status().as_u16(),
        duration_ms = took.as_millis(),
        bytes,
        by,
        request_id = id.to_str().unwrap_or_default(),
    );
}

/// A body that is produced inside the span: what breaks while it is sent is logged with the request's id, too.
struct SpannedBody {
    body: Body,
    span: Span,
}

impl HttpBody for SpannedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        let Self { body, span } = &mut *self;
        span.in_scope(|| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_client_is_kept_if_it_is_one_value_of_visible_ascii() {
        let given = |values: &[&[u8]]| {
            let values = values.iter().map(|value| (REQUEST_ID, HeaderValue::from_bytes(value).unwrap()));
            given_id(&HeaderMap::from_iter(values)).map(|id| id.as_bytes().to_vec())
        };
        let longest = [b'x'; REQUEST_ID_MAX];
        for kept in [&b"a"[..], b"0192f3c1-8a54", b"~!{}\"", &longest] {
            assert_eq!(given(&[kept]).as_deref(), Some(kept));
        }
        for made_anew in [&b""[..], b"a b", b"a\tb", "ä".as_bytes(), &[b'x'; REQUEST_ID_MAX + 1]] {
            assert_eq!(given(&[made_anew]), None, "{made_anew:?}");
        }
        assert_eq!(given(&[]), None);
        assert_eq!(new_id().len(), 36);
    }
}
