//! What a server may send: a bound on each message and on each answer, looked at before anything of it is kept.
//!
//! The library holds a message until it is whole, and an answer until its last row. So a server that announces or sends without end
//! would take all memory; here its connection ends instead.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes of one message. What this program writes has [`MOST_STORED`](super::bounds::MOST_STORED) bytes at most in one row.
const MOST_MESSAGE: usize = 16 * 1024 * 1024;
/// Most bytes of an answer, and of all that is said before the first one is over.
const MOST_ANSWER: usize = 512 * 1024 * 1024;
/// What a message costs besides its bytes when it is held.
const HELD: usize = 64;

/// Why the server was not listened to any more, if so.
pub(super) type Refused = Arc<OnceLock<String>>;

/// A connection whose messages are measured as they come.
pub(super) struct Guarded<S> {
    inner: S,
    meter: Meter,
    refused: Refused,
}

impl<S> Guarded<S> {
    /// With `asks_for_tls`, the first byte answers that question and is no message.
    pub(super) fn new(inner: S, asks_for_tls: bool, refused: Refused) -> Guarded<S> {
        Guarded { inner, meter: Meter { skip: usize::from(asks_for_tls), ..Meter::default() }, refused }
    }

    /// The connection itself, and where is said why it was ended: what is encrypted is measured after it was decrypted.
    pub(super) fn into_parts(self) -> (S, Refused) {
        (self.inner, self.refused)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = read
            && let Err(reason) = self.meter.pass(&buffer.filled()[before..])
        {
            let _ = self.refused.set(reason.clone());
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Follows messages: a byte that names the kind, four with the length of the rest and of themselves.
#[derive(Default)]
struct Meter {
    /// Bytes that are no message yet.
    skip: usize,
    head: [u8; 5],
    filled: usize,
    /// Of the message that is being read.
    left: usize,
    /// Bytes of the answer.
    answer: usize,
    /// An answer was over: what comes unasked is passed on as it comes from then on.
    ready: bool,
}

impl Meter {
    fn pass(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            if self.skip > 0 || self.left > 0 {
                let rest = if self.skip > 0 { &mut self.skip } else { &mut self.left };
                let passed = bytes.len().min(*rest);
                *rest -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            self.head[self.filled] = bytes[0];
            self.filled += 1;
            bytes = &bytes[1..];
            if self.filled == self.head.len() {
                self.filled = 0;
                self.begin()?;
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), String> {
        let [kind, length @ ..] = self.head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MOST_MESSAGE {
            return Err(format!("the database sent a message of {length} bytes, and {MOST_MESSAGE} are the most"));
        }
        self.left = length.saturating_sub(4);
        match kind {
            // The server is ready for the next question.
            b'Z' => (self.answer, self.ready) = (0, true),
            // Notices, notifications and settings.
            b'N' | b'A' | b'S' if self.ready => {}
            _ => self.answer += length + HELD,
        }
        if self.answer > MOST_ANSWER {
            return Err(format!("the database sent an answer of more than {MOST_ANSWER} bytes"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: usize) -> Vec<u8> {
        let length = u32::try_from(body + 4).unwrap().to_be_bytes();
        [&[kind][..], &length, &vec![0; body]].concat()
    }

    #[test]
    fn messages_are_followed_however_they_are_cut_and_what_is_too_much_is_refused_by_its_head() {
        let all: Vec<u8> = [message(b'T', 30), message(b'D', 0), message(b'Z', 1)].concat();
        for size in 1..all.len() {
            let mut meter = Meter { skip: 1, ..Meter::default() };
            meter.pass(b"N").unwrap();
            all.chunks(size).for_each(|chunk| meter.pass(chunk).unwrap());
            assert_eq!((meter.left, meter.filled, meter.answer, meter.ready), (0, 0, 0, true), "{size}");
        }
        let mut meter = Meter::default();
        let refused = meter.pass(&message(b'D', 4)[..1]).and(meter.pass(&u32::MAX.to_be_bytes()));
        assert!(refused.unwrap_err().contains("a message of 4294967295 bytes"));
    }

    #[test]
    fn an_answer_has_a_bound_and_what_comes_unasked_has_none_once_the_server_was_ready() {
        let row = message(b'D', MOST_MESSAGE - 4);
        let said = |mut meter: Meter, message: &[u8], times: usize| (0..times).try_for_each(|_| meter.pass(message));
        let times = MOST_ANSWER / MOST_MESSAGE + 1;
        assert!(said(Meter::default(), &row, times - 2).is_ok());
        assert!(said(Meter::default(), &row, times).unwrap_err().contains("an answer of more than"));
        let notice = message(b'N', MOST_MESSAGE - 4);
        assert!(said(Meter::default(), &notice, times).is_err(), "the library keeps them until it is connected");
        assert!(said(Meter { ready: true, ..Meter::default() }, &notice, times).is_ok());
    }
}
