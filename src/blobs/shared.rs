//! What every place for shared files does.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::error::Error;

pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A shared file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Blob {
    /// The SHA-256 of its content.
    #[serde(with = "hex::serde")]
    pub sha256: [u8; 32],
    pub size: u64,
}

/// One of those that [`Blobs::list`] finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    pub blob: Blob,
    /// Seconds since it was put, or put again.
    pub age: u64,
}

/// Where shared files are. Any number of services use it at the same time.
pub trait Blobs: std::fmt::Debug + Send + Sync {
    /// Puts a file, unless it is there already; durable and visible to all when `Ok`. A file that changes meanwhile is an error.
    fn put_file<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Blob, Error>>;

    /// The same for bytes.
    fn put(&self, bytes: Bytes) -> BoxFuture<'_, Result<Blob, Error>>;

    /// Writes the content to a file that only the service's user can read, in place of what was there; the file is whole or
    /// not there. What does not fit its hash is [`Error::Damaged`].
    fn fetch<'a>(&'a self, blob: &'a Blob, to: &'a Path) -> BoxFuture<'a, Result<(), Error>>;

    /// The content of a small one, checked.
    fn read(&self, blob: &Blob) -> BoxFuture<'_, Result<Bytes, Error>>;

    /// Removes one; nothing if it is not there.
    fn remove(&self, blob: &Blob) -> BoxFuture<'_, Result<(), Error>>;

    /// All of them, by their hash, from behind `after` on; at most `most`.
    fn list(&self, after: Option<[u8; 32]>, most: usize) -> BoxFuture<'_, Result<Vec<Listed>, Error>>;

    /// Looks whether it can be written and read; says where it is.
    fn check(&self) -> BoxFuture<'_, Result<String, Error>>;
}
