//! Shared files in the bucket of an object store that speaks S3. Each is an object, `sha256/ab/<hash>` below the prefix.
//!
//! Long ones are sent in parts and read in pieces, so that no request is long and each can be sent again.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tracing::warn;

mod client;
#[cfg(any(test, fuzzing))]
pub(crate) mod foreign;
mod keys;
mod listing;
mod object;
mod objects;
mod parts;
mod refusal;
mod sign;
mod xml;

use self::client::{AT_ONCE, Client};
use self::object::Objects;
use super::error::Error;
use super::shared::{Blob, Blobs, BoxFuture, Listed};
use crate::domain::causes::chain;
use crate::settings::S3Place;

#[derive(Debug, Clone)]
pub(super) struct S3 {
    objects: Arc<Objects>,
    turns: Arc<Semaphore>,
}

impl S3 {
    /// The server is not asked yet.
    pub(super) fn open(place: &S3Place) -> Result<Self, Error> {
        let prefix = &place.bucket.prefix;
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let objects = Arc::new(Objects { client: Client::new(place)?, prefix });
        Ok(Self { objects, turns: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    fn blocking<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Objects) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, Error>> {
        let (objects, turns) = (self.objects.clone(), self.turns.clone());
        Box::pin(async move {
            let turn = turns.acquire_owned().await;
            let done = tokio::task::spawn_blocking(move || {
                // Held to the end of the work, even if nobody waits for it any more.
                let _turn = turn;
                work(&objects)
            });
            done.await.unwrap_or_else(|broken| Err(Error::Unreachable { reason: broken.to_string() }))
        })
    }
}

impl Blobs for S3 {
    fn put_file<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Blob, Error>> {
        let path = path.to_owned();
        self.blocking(move |objects| objects.put_file(&path))
    }

    fn put(&self, bytes: Bytes) -> BoxFuture<'_, Result<Blob, Error>> {
        self.blocking(move |objects| objects.put(&bytes))
    }

    fn fetch<'a>(&'a self, blob: &'a Blob, to: &'a Path) -> BoxFuture<'a, Result<(), Error>> {
        let (blob, to) = (*blob, to.to_owned());
        self.blocking(move |objects| objects.fetch(&blob, &to))
    }

    fn read(&self, blob: &Blob) -> BoxFuture<'_, Result<Bytes, Error>> {
        let blob = *blob;
        self.blocking(move |objects| objects.read(&blob).map(Bytes::from))
    }

    fn remove(&self, blob: &Blob) -> BoxFuture<'_, Result<(), Error>> {
        let blob = *blob;
        self.blocking(move |objects| objects.remove(&blob))
    }

    fn list(&self, after: Option<[u8; 32]>, most: usize) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        self.blocking(move |objects| {
            if after.is_none()
                && let Err(error) = parts::remove_abandoned(objects)
            {
                warn!(error = %chain(&error), "it is not known whether parts of uploads are left in the bucket");
            }
            objects.list(after, most)
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<String, Error>> {
        self.blocking(Objects::check)
    }
}
