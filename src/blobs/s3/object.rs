//! One object: where it is, whether it is there, and what a server does with it in one request.

use super::client::{Answer, Client, Request};
use super::refusal::refused;
use crate::blobs::content;
use crate::blobs::error::Error;
use crate::blobs::shared::Blob;

pub(super) const MAY_READ: &str =
    "read objects of the bucket (s3:GetObject, and s3:ListBucket to learn what is not there)";
pub(super) const MAY_WRITE: &str = "write objects of the bucket (s3:PutObject)";
pub(super) const MAY_REMOVE: &str = "remove objects of the bucket (s3:DeleteObject)";

/// The objects of a bucket below a prefix.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) client: Client,
    /// Empty, or with a slash at its end.
    pub(super) prefix: String,
}

impl Objects {
    /// The names are those of a shared folder, so that either can be copied into the other.
    pub(super) fn key(&self, blob: &Blob) -> String {
        let name = content::name(blob);
        format!("{}{}/{name}", self.all(), name.get(..2).unwrap_or_default())
    }

    /// What the keys of all shared files begin with.
    pub(super) fn all(&self) -> String {
        format!("{}sha256/", self.prefix)
    }

    /// The server compares the content with its hashes.
    pub(super) fn put_whole(&self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        let headers = [("content-type", "application/octet-stream".to_owned())];
        let request = Request { headers: &headers, body: Some(bytes), ..Request::new("PUT", key) };
        let answer = self.client.ask(request)?;
        if answer.status == 200 { Ok(()) } else { Err(refused(&self.client, &answer, MAY_WRITE)) }
    }

    /// There is no other way to make an object young without sending it again. Whether it was there.
    pub(super) fn copy_onto_itself(&self, key: &str) -> Result<bool, Error> {
        let headers = [
            ("content-type", "application/octet-stream".to_owned()),
            ("x-amz-copy-source", format!("/{}/{key}", self.client.bucket())),
            ("x-amz-metadata-directive", "REPLACE".to_owned()),
        ];
        let answer = self.client.ask(Request { headers: &headers, body: Some(b""), ..Request::new("PUT", key) })?;
        match (answer.status, answer.code().as_deref()) {
            (200, None) => Ok(true),
            // It was removed meanwhile.
            (404, Some("NoSuchKey")) => Ok(false),
            _ => Err(refused(&self.client, &answer, MAY_WRITE)),
        }
    }

    /// What the server knows of an object, if it is there.
    pub(super) fn look(&self, key: &str) -> Result<Option<Answer>, Error> {
        let answer = self.client.ask(Request::new("HEAD", key))?;
        match answer.status {
            200 => Ok(Some(answer)),
            404 => Ok(None),
            // An answer to this has no body that says why.
            _ => {
                let headers = [("range", "bytes=0-0".to_owned())];
                let explained = self.client.ask(Request { headers: &headers, ..Request::new("GET", key) })?;
                let answer = if explained.status < 300 { &answer } else { &explained };
                Err(refused(&self.client, answer, MAY_READ))
            }
        }
    }

    pub(super) fn is_there(&self, blob: &Blob) -> Result<bool, Error> {
        Ok(self.look(&self.key(blob))?.is_some_and(|found| size_of(&found) == Some(blob.size)))
    }

    pub(super) fn remove_key(&self, key: &str) -> Result<(), Error> {
        let answer = self.client.ask(Request::new("DELETE", key))?;
        match (answer.status, answer.code().as_deref()) {
            (200 | 204, None) | (404, Some("NoSuchKey")) => Ok(()),
            _ => Err(refused(&self.client, &answer, MAY_REMOVE)),
        }
    }
}

/// The length of an object that was looked at.
pub(super) fn size_of(found: &Answer) -> Option<u64> {
    found.header("content-length")?.parse().ok()
}
