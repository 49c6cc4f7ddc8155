//! The files that all nodes share: whole or not there, slow, and away at times.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use skill_runner::blobs::{Blob, Blobs, Error, Listed};
use skill_runner::store::BoxFuture;

use super::link::Link;
use crate::world::Sabotage;

/// All shared files of a world.
pub type Kept = Arc<Mutex<BTreeMap<[u8; 32], Bytes>>>;

/// The shared files as one node reaches them.
pub struct Files {
    pub link: Arc<Link>,
    pub kept: Kept,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Files")
    }
}

impl Files {
    async fn reach(&self) -> Result<(), Error> {
        self.link.pause().await;
        let world = &self.link.world;
        if self.link.files_away() || world.chaos() && world.dice.once_in(300) {
            world.note("the shared files are away");
            return Err(Error::Unreachable { reason: "they are away".to_owned() });
        }
        Ok(())
    }

    async fn keep(&self, bytes: Bytes) -> Result<Blob, Error> {
        self.reach().await?;
        self.link.world.effect("a file is shared").await;
        let blob = Blob { sha256: Sha256::digest(&bytes).into(), size: bytes.len() as u64 };
        let world = &self.link.world;
        if world.sabotage != Sabotage::FilesForgotten || !world.dice.once_in(4) {
            self.kept.lock().unwrap().insert(blob.sha256, bytes);
        }
        Ok(blob)
    }

    async fn content(&self, blob: &Blob) -> Result<Bytes, Error> {
        self.reach().await?;
        let kept = self.kept.lock().unwrap().get(&blob.sha256).cloned();
        kept.ok_or_else(|| Error::NotFound { sha256: hex::encode(blob.sha256) })
    }
}

impl Blobs for Files {
    fn put_file<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Blob, Error>> {
        Box::pin(async move {
            let Ok(bytes) = std::fs::read(path) else {
                return Err(Error::Changed { path: path.display().to_string() });
            };
            self.keep(bytes.into()).await
        })
    }

    fn put(&self, bytes: Bytes) -> BoxFuture<'_, Result<Blob, Error>> {
        Box::pin(self.keep(bytes))
    }

    fn fetch<'a>(&'a self, blob: &'a Blob, to: &'a Path) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let bytes = self.content(blob).await?;
            self.link.world.effect("a shared file is fetched").await;
            std::fs::write(to, bytes).map_err(|_| Error::Changed { path: to.display().to_string() })
        })
    }

    fn read(&self, blob: &Blob) -> BoxFuture<'_, Result<Bytes, Error>> {
        let blob = *blob;
        Box::pin(async move { self.content(&blob).await })
    }

    fn remove(&self, blob: &Blob) -> BoxFuture<'_, Result<(), Error>> {
        let sha256 = blob.sha256;
        Box::pin(async move {
            self.reach().await?;
            self.kept.lock().unwrap().remove(&sha256);
            Ok(())
        })
    }

    fn list(&self, after: Option<[u8; 32]>, most: usize) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        Box::pin(async move {
            self.reach().await?;
            let kept = self.kept.lock().unwrap();
            let all = kept.iter().filter(|(sha256, _)| after.is_none_or(|after| **sha256 > after));
            let listed = |(sha256, bytes): (&[u8; 32], &Bytes)| Listed {
                blob: Blob { sha256: *sha256, size: bytes.len() as u64 },
                age: 0,
            };
            Ok(all.take(most).map(listed).collect())
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<String, Error>> {
        Box::pin(async { Ok("here".to_owned()) })
    }
}
