//! A client's socket as the HTTP code uses it: nobody is waited for without end, and every refusal has its envelope.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// How long a last answer may take to be sent and read.
const LAST_ANSWER: Duration = Duration::from_secs(2);
/// Most bytes that are read only so that the client gets to see its answer.
const DISCARDED_MAX: u64 = 1024 * 1024;

/// The requests of a connection that handlers got.
#[derive(Debug, Default)]
pub(crate) struct Handlers {
    begun: AtomicU64,
    /// Those whose answer is not all made yet.
    open: AtomicU64,
}

impl Handlers {
    /// A handler gets a request. The result is dropped when the last byte of its answer is made.
    pub(crate) fn begin(self: &Arc<Self>) -> Handled {
        self.begun.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        Handled(self.clone())
    }
}

/// A handler answers a request.
pub(crate) struct Handled(Arc<Handlers>);

impl Drop for Handled {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

pub(crate) struct Wire {
    stream: TcpStream,
    handlers: Arc<Handlers>,
    /// How many of their requests had begun at the last write.
    begun: u64,
    /// What is written is, at least in part, of a handler's answer.
    is_handled: bool,
    send_timeout: Duration,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Bytes came after the last answer.
    unanswered: bool,
    refused: Option<u16>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, send_timeout: Duration) -> Self {
        let handlers = Arc::default();
        Self {
            stream,
            handlers,
            begun: 0,
            is_handled: false,
            send_timeout,
            stalled: None,
            unanswered: false,
            refused: None,
        }
    }

    /// What tells the bytes of handlers from hyper's own.
    pub(crate) fn handlers(&self) -> Arc<Handlers> {
        self.handlers.clone()
    }

    /// The status with which hyper refused a request that it cannot read; hyper's own answer, which has no body, was not sent.
    pub(crate) fn refused(&self) -> Option<u16> {
        self.refused
    }

    /// Whether a part of a request came that was not answered.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// Sends a last answer and closes. What the client still sends is read for a moment: if the socket were closed before,
    /// the client would see a broken connection instead of the answer.
    pub(crate) async fn close_with(mut self, answer: &[u8]) {
        let closing = async {
            self.stream.write_all(answer).await?;
            self.stream.shutdown().await?;
            tokio::io::copy(&mut self.stream.take(DISCARDED_MAX), &mut tokio::io::sink()).await
        };
        // A client that has gone needs no answer.
        let _ = timeout(LAST_ANSWER, closing).await;
    }

    /// What a write came to, unless the client has taken nothing for too long.
    fn progress(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            self.unanswered = false;
            return written;
        }
        let send_timeout = self.send_timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(send_timeout)));
        if stalled.as_mut().poll(context).is_ready() {
            // Whoever polls a finished sleep again would be told of the timeout again.
            stalled.as_mut().reset(Instant::now());
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }

    /// Keeps back an answer that hyper gave itself. A body may have the same bytes.
    fn keep_back(&mut self, bytes: &[u8]) -> bool {
        if self.refused.is_none() && !self.is_handled {
            self.refused = bare_refusal(bytes);
        }
        self.refused.is_some()
    }

    /// Something is about to be written.
    fn writes(&mut self) {
        let begun = self.handlers.begun.load(Relaxed);
        self.is_handled |= begun != self.begun;
        self.begun = begun;
    }

    /// All that was to be written is.
    fn flushed(&mut self) {
        if self.handlers.open.load(Relaxed) == 0 && self.handlers.begun.load(Relaxed) == self.begun {
            self.is_handled = false;
        }
    }
}

/// The status of a refusal that consists of a head alone. Handlers give every refusal a body, so it is hyper's own.
fn bare_refusal(bytes: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_bare = text.ends_with("\r\n\r\n") && text.contains("\r\ncontent-length: 0\r\n");
    let status = text.strip_prefix("HTTP/1.1 ").or(text.strip_prefix("HTTP/1.0 "))?.get(..3)?.parse().ok()?;
    (is_bare && (400..500).contains(&status)).then_some(status)
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.unanswered |= buffer.filled().len() > before;
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes();
        if self.keep_back(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.progress(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writes();
        if let [part] = parts
            && self.keep_back(part)
        {
            return Poll::Ready(Ok(part.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.progress(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper asks for it when nothing is left of what it keeps to be written.
        self.flushed();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.refused.is_some() {
            // The refusal is still to be sent.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_without_a_body_is_hypers_own() {
        for (answer, expected) in [
            (
                "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
                Some(431),
            ),
            ("HTTP/1.0 400 Bad Request\r\ncontent-length: 0\r\ndate: now\r\n\r\n", Some(400)),
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", None),
            ("HTTP/1.1 416 x\r\ncontent-length: 0\r\n\r\n{\"error\":1}", None),
            ("data: HTTP/1.1 400\r\ncontent-length: 0\r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(bare_refusal(answer.as_bytes()), expected, "{answer}");
        }
    }
}
