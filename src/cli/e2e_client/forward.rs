//! Passes what the pages ask on to the service, with the token that this process has, and records what a person did.

use std::io::{self, Read};
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_stream::wrappers::ReceiverStream;
use ureq::{AsSendBody, SendBody};

use crate::cli::connect::client::Client;
use crate::cli::e2e_client::allowed::{Allowed, allowed};
use crate::cli::e2e_client::answers::{no_route, refusal};
use crate::cli::e2e_client::multipart::files_in;
use crate::cli::e2e_client::recording::{Action, Content, SentFile, Step};
use crate::cli::e2e_client::state::Shared;
use crate::cli::failure::Failure;
use crate::domain::codes::ErrorCode;
use crate::orchestrator::{Clock, WallClock};

/// Most bytes of a request that is no upload, and of an answer that is recorded.
const WHOLE_MAX: usize = 32 * 1024 * 1024;
/// Bytes of an answer that are passed on at once, and how many such pieces wait for a slow reader.
const PIECE: usize = 16 * 1024;
const PIECES: usize = 8;

/// What a page may tell the service. Cookies, origins and credentials of the page are not among it.
const TO_SERVICE: [HeaderName; 6] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::IF_NONE_MATCH,
    header::RANGE,
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("idempotency-key"),
];

/// What the service may tell a page. Cookies and challenges are not among it.
const TO_PAGE: [HeaderName; 8] = [
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::ETAG,
    header::LOCATION,
    header::RETRY_AFTER,
    HeaderName::from_static("x-request-id"),
];

pub(super) async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Some(allowed) = allowed(&parts.method, parts.uri.path()) else { return no_route(parts.uri.path()) };
    let Ok(place) = shared.places.clone().try_acquire_owned() else {
        let message = "too many requests are with the service; close a page of the example client";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::TooManyConnections, message);
    };
    match passed_on(&shared, allowed, parts, body, place).await {
        Ok(answer) => answer,
        Err(Failure::Unreachable(message)) => refusal(StatusCode::BAD_GATEWAY, ErrorCode::ServiceUnreachable, &message),
        Err(Failure::Unusable(message)) => refusal(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::PayloadTooLarge, &message),
        Err(other) => {
            let message = match other {
                Failure::Broken(message) => message,
                _ => "the example client failed".to_owned(),
            };
            refusal(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, &message)
        }
    }
}

/// What of a request is recorded; the files are known when all of it has passed.
enum Asked {
    Body(Bytes),
    Files(JoinHandle<Vec<SentFile>>),
}

type Answered = axum::http::Response<ureq::Body>;

async fn passed_on(
    shared: &Shared,
    allowed: Allowed,
    parts: Parts,
    body: Body,
    place: OwnedSemaphorePermit,
) -> Result<Response, Failure> {
    let at = WallClock.now();
    let path = parts.uri.path_and_query().map_or_else(String::new, ToString::to_string);
    let headers = only(&parts.headers, &TO_SERVICE);
    let (service, method) = (shared.service.clone(), parts.method.clone());
    let (answer, asked) = if parts.method != Method::POST {
        (sent(service, method, path.clone(), headers, SendBody::none).await?, Asked::Body(Bytes::new()))
    } else if is_form(&parts.headers) {
        let (reader, files) = divided(body, parts.headers.get(header::CONTENT_TYPE).cloned());
        let answer = sent(service, method, path.clone(), headers, move || SendBody::from_owned_reader(reader)).await?;
        (answer, Asked::Files(files))
    } else {
        let too_long = |_| Failure::Unusable(format!("a request has at most {WHOLE_MAX} bytes"));
        let whole = to_bytes(body, WHOLE_MAX).await.map_err(too_long)?;
        let sending = whole.to_vec();
        (sent(service, method, path.clone(), headers, move || sending).await?, Asked::Body(whole))
    };
    let Some(action) = allowed.action else { return Ok(streamed(answer, place)) };
    let (head, whole) =
        spawn_blocking(move || whole_answer(answer)).await.map_err(Failure::broken("read the answer"))??;
    let (request, files) = match asked {
        Asked::Body(body) => (Content::of(&body), Vec::new()),
        // A service that refuses an upload may not have read all of it.
        Asked::Files(files) => (Content::default(), files.await.unwrap_or_default()),
    };
    let status = head.status().as_u16();
    let method = parts.method.to_string();
    let step = Step { at, action, method, path, request, files, status, answer: Content::of(&whole) };
    let run = if action == Action::Create { step.answer.text("request_id") } else { allowed.run };
    // A result that is not ready yet was not read, and a run that was not created has no recording.
    let happened = head.status().is_success() || matches!(action, Action::Upload | Action::Reply);
    if let Some(run) = run.filter(|_| happened) {
        let recordings = shared.recordings.clone();
        let _ = spawn_blocking(move || recordings.add(&run, step)).await;
    }
    drop(place);
    Ok(head.map(|()| Body::from(whole)))
}

fn is_form(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"multipart/form-data"))
}

/// The headers of these names.
fn only(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let kept = |name: &HeaderName| headers.get(name).map(|value| (name.clone(), value.clone()));
    names.iter().filter_map(kept).collect()
}

/// The answer of the service, of which the head has come.
async fn sent<B: AsSendBody>(
    service: Client,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: impl FnOnce() -> B + Send + 'static,
) -> Result<Answered, Failure> {
    let asked = spawn_blocking(move || service.pass_on(method, &path, headers, body()));
    asked.await.map_err(Failure::broken("ask the service"))?
}

/// The body of an upload for the service, and the list of its files, which is made of the same pieces.
fn divided(body: Body, content_type: Option<HeaderValue>) -> (Pieces, JoinHandle<Vec<SentFile>>) {
    let (to_service, for_service) = mpsc::channel(PIECES);
    let (to_list, for_list) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(io::Error::other);
            if let Ok(piece) = &piece {
                // The list may have broken off; the upload goes on.
                let _ = to_list.send(Ok(piece.clone())).await;
            }
            if to_service.send(piece).await.is_err() {
                return;
            }
        }
    });
    (Pieces { coming: for_service, at_hand: Bytes::new() }, tokio::spawn(files_in(content_type, for_list)))
}

/// The pieces of a body, for a reader that blocks.
struct Pieces {
    coming: Receiver<io::Result<Bytes>>,
    at_hand: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at_hand.is_empty() {
            match self.coming.blocking_recv() {
                Some(piece) => self.at_hand = piece?,
                None => return Ok(0),
            }
        }
        let count = into.len().min(self.at_hand.len());
        let taken = self.at_hand.split_to(count);
        into.iter_mut().zip(taken).for_each(|(to, byte)| *to = byte);
        Ok(count)
    }
}

/// The head of an answer, for a page.
fn head_of(answer: &Answered) -> axum::http::Response<()> {
    let mut head = axum::http::Response::new(());
    *head.status_mut() = answer.status();
    *head.headers_mut() = only(answer.headers(), &TO_PAGE);
    head
}

/// An answer that is recorded.
fn whole_answer(mut answer: Answered) -> Result<(axum::http::Response<()>, Bytes), Failure> {
    let head = head_of(&answer);
    let read = answer.body_mut().with_config().limit(WHOLE_MAX as u64).read_to_vec();
    let whole = read.map_err(|error| Failure::Unreachable(format!("the answer of the service broke off: {error}")))?;
    Ok((head, whole.into()))
}

/// An answer as it comes. A page that does not read it holds it up; one that has gone ends it.
fn streamed(answer: Answered, place: OwnedSemaphorePermit) -> Response {
    let head = head_of(&answer);
    let (to_page, pieces) = mpsc::channel::<io::Result<Bytes>>(PIECES);
    spawn_blocking(move || {
        let _place = place;
        let mut reader = answer.into_body().into_with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; PIECE];
        loop {
            let piece = match reader.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => Ok(buffer.get(..count).map(Bytes::copy_from_slice).unwrap_or_default()),
                Err(error) => Err(error),
            };
            let is_last = piece.is_err();
            if to_page.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    });
    head.map(|()| Body::from_stream(ReceiverStream::new(pieces)))
}
