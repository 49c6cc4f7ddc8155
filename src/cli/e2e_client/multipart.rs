//! The files of an upload, listed while it passes: names, lengths and hashes, without their content.

use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::{HeaderValue, header};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::Receiver;
use tokio_stream::wrappers::ReceiverStream;

use crate::cli::e2e_client::recording::SentFile;

/// Most files that are listed.
const FILES_MAX: usize = 200;

/// The files in the pieces of a body. What breaks off is listed as far as it came whole.
pub(super) async fn files_in(
    content_type: Option<HeaderValue>,
    pieces: Receiver<Result<Bytes, std::io::Error>>,
) -> Vec<SentFile> {
    let mut request = Request::new(Body::from_stream(ReceiverStream::new(pieces)));
    request.headers_mut().extend(content_type.map(|value| (header::CONTENT_TYPE, value)));
    let mut found = Vec::new();
    let Ok(mut parts) = Multipart::from_request(request, &()).await else { return found };
    while let Ok(Some(mut part)) = parts.next_field().await {
        let (field, file_name) = (part.name().unwrap_or_default().to_owned(), part.file_name().map(str::to_owned));
        let (mut bytes, mut hash) = (0, Sha256::new());
        loop {
            match part.chunk().await {
                Ok(Some(piece)) => {
                    bytes += piece.len() as u64;
                    hash.update(&piece);
                }
                Ok(None) => break,
                Err(_) => return found,
            }
        }
        if found.len() < FILES_MAX {
            found.push(SentFile { field, file_name, bytes, sha256: hex::encode(hash.finalize()) });
        }
    }
    found
}
