//! One client's connection, from its first byte to its end.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use crate::http::answer::envelope::written;
use crate::http::answer::problem::Problem;
use crate::http::server::peer::PeerAt;
use crate::http::server::slots::{self, Slot};
use crate::http::server::wire::{Handled, Handlers, Wire};
use crate::http::state::room::Held;
use crate::http::state::turns::Answering;
use crate::settings::Connections;

/// Most bytes of a request's line and headers.
const HEAD_MAX: usize = 32 * 1024;
/// Most bytes kept of what came and is not read, and of what is to be sent, apart from the piece of the body at hand.
const BUFFER_MAX: usize = 64 * 1024;

/// How long a request that has begun to come may still take when the service closes.
const LAST_HEAD: Duration = Duration::from_secs(1);

/// Answers the requests of a connection until the client closes it, is too slow, or has to make room for others. After
/// `closing`, the request at hand is the last.
pub(crate) async fn serve(
    stream: TcpStream,
    peer: PeerAt,
    slot: Slot,
    router: Router,
    limits: &Connections,
    closing: impl Future<Output = ()>,
) {
    let slot = Arc::new(slot);
    // Dropped before its place is free.
    let mut wire = Wire::new(stream, Duration::from_secs(limits.send_timeout_seconds));
    let ended = {
        let (router, handlers) = (TowerToHyperService::new(router), wire.handlers());
        let answers = Answers { router, peer, slot: slot.clone(), handlers };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(limits.header_timeout_seconds))
            .max_header_size(HEAD_MAX)
            .max_buf_size(BUFFER_MAX)
            .serve_connection(TokioIo::new(&mut wire), answers);
        let mut connection = pin!(connection);
        let mut closing = pin!(closing);
        let (mut is_closing, mut last_head) = (false, None);
        loop {
            tokio::select! {
                ended = connection.as_mut() => break ended,
                () = slot.evicted.cancelled() => return,
                () = &mut closing, if !is_closing => {
                    (is_closing, last_head) = (true, Some(Instant::now() + LAST_HEAD));
                    connection.as_mut().graceful_shutdown();
                }
                () = at(last_head) => {
                    if slot.is_idle() {
                        return;
                    }
                    last_head = None;
                }
            }
        }
    };
    let Err(error) = ended else { return };
    let problem = match wire.refused() {
        Some(431) => Problem::HeadersTooLarge { limit: HEAD_MAX },
        Some(414) => Problem::UriTooLong { limit: HEAD_MAX },
        Some(_) => Problem::NotHttp { reason: error.to_string() },
        None if error.is_timeout() && wire.is_unanswered() => {
            Problem::HeadTimeout { seconds: limits.header_timeout_seconds }
        }
        // Nothing was asked, or the client has gone.
        None => return,
    };
    wire.close_with(&written(&problem)).await;
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

/// Answers a connection for which there is no room.
pub(crate) async fn turn_away(stream: TcpStream) {
    let wire = Wire::new(stream, Duration::ZERO);
    wire.close_with(&written(&Problem::TooManyConnections)).await;
}

/// The router, for the requests of one connection.
struct Answers {
    router: TowerToHyperService<Router>,
    peer: PeerAt,
    slot: Arc<Slot>,
    handlers: Arc<Handlers>,
}

impl Service<http::Request<Incoming>> for Answers {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: http::Request<Incoming>) -> Self::Future {
        let Some(request_of_slot) = self.slot.begin_request() else {
            // The connection is about to be closed.
            return Box::pin(pending());
        };
        let handled = self.handlers.begin();
        request.extensions_mut().insert(self.peer);
        let slot = self.slot.clone();
        let answer = self.router.call(request.map(|body| Body::new(ClientsBody { body, slot, waits: false })));
        Box::pin(async move {
            let response = answer.await?;
            let held = response.extensions().get().cloned();
            let answering = response.extensions().get().cloned();
            Ok(response.map(|body| AnswerBody {
                body,
                _request: request_of_slot,
                _handled: handled,
                _held: held,
                _answering: answering,
            }))
        })
    }
}

/// The body of a request. While more of it is waited for, its connection gives way to others.
struct ClientsBody {
    body: Incoming,
    slot: Arc<Slot>,
    waits: bool,
}

impl ClientsBody {
    fn waits(&mut self, waits: bool) {
        if self.waits != waits {
            self.waits = waits;
            self.slot.waits_for_body(waits);
        }
    }
}

impl HttpBody for ClientsBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.waits(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ClientsBody {
    fn drop(&mut self) {
        self.waits(false);
    }
}

/// The body of an answer; its request is over when the body is.
struct AnswerBody {
    body: Body,
    _request: slots::Request,
    _handled: Handled,
    /// Its room in memory, if it is large.
    _held: Option<Held>,
    _answering: Option<Answering>,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
