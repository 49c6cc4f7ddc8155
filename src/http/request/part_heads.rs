//! Bounds what stands between the contents of a multipart body: heads of parts, and whatever comes before the first.
//!
//! The parser keeps a head until its end has come and looks through all of it each time more comes: a head as long as an
//! upload would take that much memory, and time that grows with its square.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

/// Most bytes of a head.
pub(crate) const HEAD_MAX: usize = 64 * 1024;

/// Stands for content, which has a limit of its own.
const IN_CONTENT: usize = usize::MAX;

/// Which part of the body is being read.
#[derive(Clone, Default)]
pub(crate) struct PartHeads(Arc<AtomicUsize>);

impl PartHeads {
    /// The body, to be read as heads until it is said otherwise.
    pub(crate) fn bound(&self, body: Body) -> Body {
        Body::from_stream(Bounded { body: body.into_data_stream(), heads: self.clone(), rests: false })
    }

    /// A head has ended, and its content follows.
    pub(crate) fn content_follows(&self) {
        self.0.store(IN_CONTENT, Ordering::Release);
    }

    /// The content has ended, and perhaps another head follows.
    pub(crate) fn head_follows(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Whether a head was too long.
    pub(crate) fn exceeded(&self) -> bool {
        let came = self.0.load(Ordering::Acquire);
        came != IN_CONTENT && came > HEAD_MAX
    }

    fn came(&self, bytes: usize) {
        let add = |came: usize| (came != IN_CONTENT).then(|| came.saturating_add(bytes).min(IN_CONTENT - 1));
        // Content is not counted.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }
}

struct Bounded {
    body: BodyDataStream,
    heads: PartHeads,
    /// The parser reads as long as there is something, before it looks at any of it: so after each piece it is made to look.
    rests: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("the head of a part is longer than {HEAD_MAX} bytes")]
struct HeadTooLong;

impl Stream for Bounded {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.rests) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.heads.exceeded() {
            return Poll::Ready(Some(Err(axum::Error::new(HeadTooLong))));
        }
        let polled = self.body.poll_next_unpin(context);
        if let Poll::Ready(Some(Ok(piece))) = &polled {
            self.heads.came(piece.len());
            self.rests = true;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::{FromRequest, Multipart, Request};
    use futures_util::stream;

    use super::*;

    const PIECE: usize = 16 * 1024;

    /// Reads a multipart body that comes in pieces, as fast as it is read; the bytes of content, or none if a head was too long.
    async fn read(parts: &[(&str, usize)]) -> Option<usize> {
        let mut body = Vec::new();
        for (head, content) in parts {
            body.extend_from_slice(head.as_bytes());
            body.extend(vec![b'x'; *content]);
        }
        let pieces: Vec<Result<Vec<u8>, std::io::Error>> = body.chunks(PIECE).map(|piece| Ok(piece.to_vec())).collect();
        let heads = PartHeads::default();
        let body = heads.bound(Body::from_stream(stream::iter(pieces)));
        let request =
            Request::builder().header("content-type", "multipart/form-data; boundary=EDGE").body(body).unwrap();
        let mut parts = Multipart::from_request(request, &()).await.unwrap();
        let mut bytes = 0;
        loop {
            let Ok(next) = parts.next_field().await else {
                assert!(heads.exceeded());
                return None;
            };
            let Some(mut field) = next else { return Some(bytes) };
            heads.content_follows();
            while let Some(chunk) = field.chunk().await.unwrap() {
                bytes += chunk.len();
            }
            heads.head_follows();
        }
    }

    #[tokio::test]
    async fn contents_of_any_length_pass_and_a_head_that_does_not_end_is_refused() {
        let part = "--EDGE\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n";
        let next = format!("\r\n{part}");
        let end = ("\r\n--EDGE--\r\n", 0);
        assert_eq!(read(&[(part, 1_000_000), (&next, 1_000_000), end]).await, Some(2_000_000));
        let unfinished = "--EDGE\r\ncontent-disposition: form-data; name=\"";
        let preamble = "no part begins here";
        for long in [unfinished, preamble] {
            assert_eq!(read(&[(long, 3 * HEAD_MAX), end]).await, None, "{long}");
            assert_eq!(
                read(&[(part, 1_000_000), (&format!("\r\n{long}"), 3 * HEAD_MAX), end]).await.is_none(),
                long == unfinished
            );
        }
    }
}
