//! A request's body: it must come in time, and what is left of a refused one is read before the answer is sent.
//!
//! If the server answered and closed while the client still sends, most clients would report a broken pipe instead of
//! the answer. So the rest of the body is read, within limits, and discarded.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::time::{Sleep, sleep};

/// Most bytes discarded; a client that sends more may see a broken pipe. Twice an upload of the usual limit: an upload for which there
/// is no room may be refused at its beginning.
const MAX_BYTES: usize = 128 * 1024 * 1024;
const MAX_TIME: Duration = Duration::from_secs(5);
/// So many bytes must come in each period, or the end. Slow lines bring far more; a client that only wants to keep
/// the connection busy does not.
const LEAST_BYTES: usize = 1024;

/// Where the unread rest of a body is left.
#[derive(Clone, Default)]
pub(crate) struct UnreadBody(Arc<Shared>);

#[derive(Default)]
struct Shared {
    left: Mutex<Option<BodyDataStream>>,
    begun: AtomicBool,
    timed_out: AtomicBool,
}

impl UnreadBody {
    /// The body for the handler; what it does not read comes back here. It breaks off if too little comes in a `period`.
    pub(crate) fn lend(&self, body: Body, period: Duration) -> Body {
        let pace = Pace { period, came: 0, ends: None };
        Body::from_stream(Lent { body: Some(body.into_data_stream()), pace, unread: self.clone() })
    }

    /// Whether the handler has asked for any of it. Only then is a client that sent `Expect: 100-continue` told to send it.
    pub(crate) fn was_begun(&self) -> bool {
        self.0.begun.load(Ordering::Acquire)
    }

    /// Whether the handler was told that the body broke off because it did not come in time.
    pub(crate) fn timed_out(&self) -> bool {
        self.0.timed_out.load(Ordering::Acquire)
    }

    /// Reads what was left, and discards it.
    pub(crate) async fn discard(self) {
        let left = self.0.left.lock().unwrap_or_else(PoisonError::into_inner).take();
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
    pace: Pace,
    unread: UnreadBody,
}

/// Whether a body comes fast enough. The clock runs only while the reader waits.
struct Pace {
    period: Duration,
    came: usize,
    /// The end of the period; none while nothing is waited for.
    ends: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    fn came(&mut self, bytes: usize) {
        self.came += bytes;
        if self.came >= LEAST_BYTES {
            (self.came, self.ends) = (0, None);
        }
    }

    fn is_too_slow(&mut self, context: &mut Context<'_>) -> bool {
        let period = self.period;
        self.ends.get_or_insert_with(|| Box::pin(sleep(period))).as_mut().poll(context).is_ready()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("too little of the body came in time")]
struct TooSlow;

impl Stream for Lent {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { body: Some(body), pace, unread } = &mut *self else { return Poll::Ready(None) };
        unread.0.begun.store(true, Ordering::Release);
        let polled = match body.poll_next_unpin(context) {
            Poll::Pending if pace.is_too_slow(context) => {
                unread.0.timed_out.store(true, Ordering::Release);
                Poll::Ready(Some(Err(axum::Error::new(TooSlow))))
            }
            polled => polled,
        };
        if let Poll::Ready(Some(Ok(chunk))) = &polled {
            pace.came(chunk.len());
        }
        if !matches!(polled, Poll::Pending | Poll::Ready(Some(Ok(_)))) {
            self.body = None;
        }
        polled
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            *self.unread.0.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    const PERIOD: Duration = Duration::from_secs(30);

    /// Reads a body that brings a piece of this size every so many seconds; the bytes that came, and whether it timed out.
    async fn read(pieces: usize, bytes: usize, every: u64) -> (usize, bool) {
        let slow = stream::unfold(0, move |sent| async move {
            tokio::time::sleep(Duration::from_secs(every)).await;
            (sent < pieces).then(|| (Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes])), sent + 1))
        });
        let unread = UnreadBody::default();
        let mut body = unread.lend(Body::from_stream(slow), PERIOD).into_data_stream();
        let mut came = 0;
        while let Some(Ok(piece)) = body.next().await {
            came += piece.len();
        }
        (came, unread.timed_out())
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_read_to_its_end_and_one_that_only_pretends_to_come_is_not() {
        assert_eq!(read(100, 2000, 29).await, (200_000, false), "a slow line, for most of an hour");
        assert_eq!(read(3, 10, 7).await, (30, false), "a short one");
        assert_eq!(read(1000, 1, 4).await, (7, true), "a byte now and then");
        assert_eq!(read(10, 2000, 31).await, (0, true), "silence");
    }
}
