//! What is done with shared files: put unless they are there, made young again, read in pieces, removed; and the check of all that.

use std::io::Write;
use std::path::Path;

use super::client::{PIECE, Request};
use super::object::{MAY_READ, Objects, size_of};
use super::parts;
use super::refusal::refused;
use crate::blobs::content::{Passed, damaged, missing, of_bytes, of_file};
use crate::blobs::error::Error;
use crate::blobs::shared::Blob;
use crate::files;

/// Longest object that a server copies in one step.
const COPY_MAX: u64 = 5 << 30;
/// One that was put so shortly ago need not be made young again.
const YOUNG_SECONDS: u64 = 60;

const CHECKED: &[u8] = b"written";

impl Objects {
    pub(super) fn put_file(&self, source: &Path) -> Result<Blob, Error> {
        let blob = of_file(source)?;
        if self.refresh(&blob)? {
            return Ok(blob);
        }
        let changed = || Error::Changed { path: source.display().to_string() };
        let unreadable = |error| files::Error::on("read", source)(error).into();
        let mut file = files::open_regular(source)?;
        if blob.size > PIECE {
            parts::put(self, &blob, &mut file, unreadable, changed)?;
            return Ok(blob);
        }
        let bytes = parts::next(&mut file, PIECE.saturating_add(1)).map_err(unreadable)?;
        if of_bytes(&bytes) != blob {
            return Err(changed());
        }
        self.put_whole(&self.key(&blob), &bytes)?;
        Ok(blob)
    }

    pub(super) fn put(&self, bytes: &[u8]) -> Result<Blob, Error> {
        let blob = of_bytes(bytes);
        if self.refresh(&blob)? {
            return Ok(blob);
        }
        if blob.size > PIECE {
            let unreadable = |error: std::io::Error| Error::Unreachable { reason: error.to_string() };
            let changed = || damaged(&blob, "it changed while it was put");
            parts::put(self, &blob, &mut &*bytes, unreadable, changed)?;
        } else {
            self.put_whole(&self.key(&blob), bytes)?;
        }
        Ok(blob)
    }

    /// Whether it is there, which makes it as young as a new one.
    fn refresh(&self, blob: &Blob) -> Result<bool, Error> {
        let key = self.key(blob);
        let Some(found) = self.look(&key)? else { return Ok(false) };
        // Something else in its place is replaced.
        if size_of(&found) != Some(blob.size) {
            return Ok(false);
        }
        if found.age_of("last-modified") < YOUNG_SECONDS {
            return Ok(true);
        }
        if blob.size > COPY_MAX {
            return Ok(false);
        }
        self.copy_onto_itself(&key)
    }

    pub(super) fn fetch(&self, blob: &Blob, to: &Path) -> Result<(), Error> {
        files::write_private_durably_with(to, |file| {
            self.copy_to(blob, |piece| {
                file.write_all(piece).map_err(|error| files::Error::on("write", to)(error).into())
            })
        })
    }

    pub(super) fn read(&self, blob: &Blob) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.copy_to(blob, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Gives all of it to `take`, piece by piece, and checks that it is what was asked for.
    fn copy_to(&self, blob: &Blob, mut take: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let (key, mut passed, mut from) = (self.key(blob), Passed::default(), 0);
        loop {
            let piece = self.piece(blob, &key, from)?;
            passed.add(&piece);
            take(&piece)?;
            from += piece.len() as u64;
            if from >= blob.size {
                return passed.check(blob);
            }
        }
    }

    /// The bytes from `from` on; at least one if there should be any.
    fn piece(&self, blob: &Blob, key: &str, from: u64) -> Result<Vec<u8>, Error> {
        // No part of an empty object can be asked for.
        if blob.size == 0 {
            return match self.look(key)? {
                Some(found) if size_of(&found) == Some(0) => Ok(Vec::new()),
                Some(_) => Err(damaged(blob, "it has more than 0 bytes")),
                None => Err(missing(blob)),
            };
        }
        let end = blob.size.min(from.saturating_add(PIECE));
        let headers = [("range", format!("bytes={from}-{}", end.saturating_sub(1)))];
        let answer = self.client.ask(Request { headers: &headers, ..Request::new("GET", key) })?;
        match (answer.status, answer.code().as_deref()) {
            (206, _) => {}
            (404, Some("NoSuchKey")) => return Err(missing(blob)),
            (416, _) => return Err(damaged(blob, format!("it has less than {} bytes", blob.size))),
            (200, None) => {
                let reason = "the server does not send parts of objects".to_owned();
                return Err(Error::Unusable { place: self.client.place(), reason });
            }
            _ => return Err(refused(&self.client, &answer, MAY_READ)),
        }
        let size = answer.header("content-range").and_then(|range| range.rsplit_once('/')?.1.parse::<u64>().ok());
        match size {
            Some(size) if size != blob.size => {
                Err(damaged(blob, format!("it has {size} bytes and should have {}", blob.size)))
            }
            _ if answer.body.len() as u64 != end - from => {
                Err(damaged(blob, format!("{} bytes came instead of {}", answer.body.len(), end - from)))
            }
            _ => Ok(answer.body),
        }
    }

    pub(super) fn remove(&self, blob: &Blob) -> Result<(), Error> {
        self.remove_key(&self.key(blob))
    }

    /// Writes an object, copies it, reads it, lists and removes: all that is ever asked of the server.
    pub(super) fn check(&self) -> Result<String, Error> {
        let key = format!("{}check-{}", self.prefix, uuid::Uuid::now_v7());
        let place = self.client.place();
        self.put_whole(&key, CHECKED)?;
        let checked = self.check_written(&key);
        let removed = self.remove_key(&key);
        checked.and(removed)?;
        self.list(None, 1)?;
        parts::remove_abandoned(self)?;
        Ok(format!("the bucket {place} at {}", self.client.endpoint()))
    }

    fn check_written(&self, key: &str) -> Result<(), Error> {
        let unusable = |reason: &str| Error::Unusable { place: self.client.place(), reason: reason.to_owned() };
        if !self.copy_onto_itself(key)? {
            return Err(unusable("what was written was not there"));
        }
        let headers = [("range", format!("bytes=0-{}", CHECKED.len()))];
        let answer = self.client.ask(Request { headers: &headers, ..Request::new("GET", key) })?;
        match answer.status {
            206 if answer.body == CHECKED => Ok(()),
            200 | 206 => Err(unusable("what was written was not read back")),
            _ => Err(refused(&self.client, &answer, MAY_READ)),
        }
    }
}
