//! Reads the rest of a refused request's body before the answer is sent.
//!
//! If the server answered and closed while the client still sends, most clients would report a broken pipe instead of
//! the answer. So the rest of the body is read, within limits, and discarded.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

/// Most bytes discarded; a client that sends more may see a broken pipe.
const MAX_BYTES: usize = 16 * 1024 * 1024;
const MAX_TIME: Duration = Duration::from_secs(5);

/// Where the unread rest of a body is left.
#[derive(Clone, Default)]
pub(crate) struct UnreadBody(Arc<Mutex<Option<BodyDataStream>>>);

impl UnreadBody {
    /// The body for the handler; what it does not read comes back here.
    pub(crate) fn lend(&self, body: Body) -> Body {
        Body::from_stream(Lent { body: Some(body.into_data_stream()), unread: self.clone() })
    }

    /// Reads what was left, and discards it.
    pub(crate) async fn discard(self) {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut body) = left else { return };
        let drain = async {
            let mut bytes = 0;
            while let Some(Ok(chunk)) = body.next().await {
                bytes += chunk.len();
                if bytes > MAX_BYTES {
                    break;
                }
            }
        };
        // What is left after that is not read.
        let _ = tokio::time::timeout(MAX_TIME, drain).await;
    }
}

struct Lent {
    /// None once it was read to its end.
    body: Option<BodyDataStream>,
    unread: UnreadBody,
}

impl Stream for Lent {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = body.poll_next_unpin(context);
        if !matches!(polled, Poll::Pending | Poll::Ready(Some(Ok(_)))) {
            self.body = None;
        }
        polled
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            *self.unread.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}
