//! A run that is over: every file that its proof names is shared, and fetched where it is not.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::row::{EndFiles, MANIFEST_MAX};
use super::{AT_ONCE, Along, Mark, Row, RunFiles, Sources, blob_of, patiently};
use crate::artifact::Manifest;
use crate::blobs::Blob;
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::outcome::Evidence;
use crate::domain::run_file::RunFile;
use crate::files;
use crate::orchestrator::error::Error;
use crate::store::BoxFuture;

impl RunFiles {
    /// Puts the last files of a run, as its manifest on this disk lists them; what the append that ends the run is to carry.
    pub(crate) fn at_end<'a>(&'a self, run: RunId, evidence: &'a Evidence) -> BoxFuture<'a, Result<Along, Error>> {
        Box::pin(self.put_finished(run, evidence))
    }

    async fn put_finished(&self, run: RunId, evidence: &Evidence) -> Result<Along, Error> {
        let Some(blobs) = &self.blobs else { return Ok(Along::default()) };
        let root = self.layout.run(run).root;
        let manifest_at = root.join(RunFile::Manifest.name());
        let at = manifest_at.clone();
        let read = move || files::read_regular(&at, MANIFEST_MAX);
        let bytes = self.blocking.run("read the manifest", read).await??.unwrap_or_default();
        let manifest = Manifest::read(&bytes).map_err(|message| wrong(run, message))?;
        let streams = streams(run, evidence)?;
        let listed = listed(run, &manifest)?;
        let put_after = self.store.removals().await?;
        let mut put = Vec::new();
        let mut sources = Sources { blobs: blobs.clone(), files: Vec::new(), temporary: Vec::new() };
        for (path, blob) in listed.iter().chain(&streams) {
            sources.files.push((root.join(path), *blob));
            put.push(self.put_one(run, path.clone(), *blob));
        }
        let mut hashes: Vec<[u8; 32]> = stream::iter(put).buffer_unordered(AT_ONCE).try_collect().await?;
        let manifest = patiently(|| blobs.put_file(&manifest_at)).await?;
        hashes.push(manifest.sha256);
        sources.files.push((manifest_at, manifest));
        hashes.sort_unstable();
        hashes.dedup();
        let row = Row { end: Some(EndFiles { manifest, streams }), ..Row::default() };
        let (rows, mark) = (vec![row.put(run)?], Some(Mark::end(&manifest)));
        Ok(Along { rows, files: hashes, put_after, sources: Some(Arc::new(sources)), mark })
    }

    /// Fetches the files of a finished run that are not on this disk.
    pub(crate) fn fetch_finished(&self, run: RunId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.fetch_if_missing(run))
    }

    async fn fetch_if_missing(&self, run: RunId) -> Result<(), Error> {
        let Some(blobs) = &self.blobs else { return Ok(()) };
        let Some(Row { end: Some(end), sealed, .. }) = self.row(run).await? else { return Ok(()) };
        let mark = Mark::end(&end.manifest);
        if self.has_finished(run, &mark).await? {
            return Ok(());
        }
        let _alone = self.lock(run).await;
        if self.held().contains(&run) || self.has_finished(run, &mark).await? {
            return Ok(());
        }
        let manifest = patiently(|| blobs.read(&end.manifest)).await.map_err(|error| of_run(run, error))?;
        let listed = listed(run, &Manifest::read(&manifest).map_err(|message| wrong(run, message))?)?;
        let own = [(RunFile::Manifest.name().to_owned(), end.manifest)];
        let log = sealed.map(|sealed| (RunFile::Events.name().to_owned(), sealed));
        let all: BTreeMap<String, Blob> = listed.into_iter().chain(end.streams).chain(own).chain(log).collect();
        self.has_room_for(all.values().map(|blob| blob.size).fold(0, u64::saturating_add))?;
        let runs = self.layout.runs();
        let folder_in = runs.clone();
        let make = move || {
            files::create_folder(&folder_in)?;
            tempfile::Builder::new()
                .prefix(".fetching-")
                .tempdir_in(&folder_in)
                .map_err(Error::io(format!("create a folder in {}", folder_in.display())))
        };
        let made = self.blocking.run("fetch the run's files", make).await??;
        let mut fetched = Vec::new();
        for (path, blob) in all {
            fetched.push(self.fetch_one(run, made.path().join(path), blob));
        }
        let fetched = stream::iter(fetched).buffer_unordered(AT_ONCE);
        fetched.try_collect::<Vec<()>>().await?;
        let place = self.layout.run(run).root;
        let put = move || {
            files::sync_file_system(made.path())?;
            files::remove_tree(&place)?;
            files::rename(made.path(), &place)?;
            // Nothing is left to be removed at its old path.
            let _ = made.keep();
            files::sync(&runs)
        };
        self.blocking.run("fetch the run's files", put).await??;
        self.set_mark(run, Some(mark)).await
    }

    fn put_one(&self, run: RunId, path: String, expected: Blob) -> BoxFuture<'_, Result<[u8; 32], Error>> {
        let place = self.layout.run(run).root.join(&path);
        Box::pin(async move {
            let Some(blobs) = &self.blobs else { return Ok(expected.sha256) };
            let put = patiently(|| blobs.put_file(&place)).await?;
            if put == expected { Ok(put.sha256) } else { Err(wrong(run, format!("{path} has changed"))) }
        })
    }

    fn fetch_one(&self, run: RunId, to: PathBuf, blob: Blob) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let Some(blobs) = &self.blobs else { return Ok(()) };
            let file = to.clone();
            self.blocking.run("fetch the run's files", move || files::create_parent(&file)).await??;
            patiently(|| blobs.fetch(&blob, &to)).await.map_err(|error| of_run(run, error))
        })
    }

    async fn has_finished(&self, run: RunId, mark: &Mark) -> Result<bool, Error> {
        let (paths, mark) = (self.layout.run(run), mark.clone());
        let look = move || {
            let here = Mark::read(&paths) == Some(mark) && paths.file(RunFile::Manifest).symlink_metadata().is_ok();
            if here {
                super::mark::used(&paths);
            }
            here
        };
        self.blocking.run("look for the run's files", look).await
    }

    pub(super) fn has_room_for(&self, bytes: u64) -> Result<(), Error> {
        let data = self.layout.data();
        let free = files::free_bytes(data)?;
        if free >= bytes {
            return Ok(());
        }
        Err(Error::InsufficientStorage { file_system: files::mount_point(data), free, floor: bytes })
    }
}

/// The files that a manifest lists, by their paths.
fn listed(run: RunId, manifest: &Manifest) -> Result<BTreeMap<String, Blob>, Error> {
    let artifacts = manifest.artifacts.iter().map(|file| (&file.path_rel, file.size, &file.sha256));
    let files = manifest.files.iter().flatten().map(|file| (&file.path, file.size, &file.sha256));
    let blob = |(path, size, sha256): (&String, u64, &String)| {
        let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        let blob = blob_of(sha256, size).filter(|_| plain && !path.is_empty());
        blob.map(|blob| (path.clone(), blob)).ok_or_else(|| wrong(run, format!("{path:?} is no file of a run")))
    };
    artifacts.chain(files).map(blob).collect()
}

/// The files of raw output that are not empty.
fn streams(run: RunId, evidence: &Evidence) -> Result<BTreeMap<String, Blob>, Error> {
    let mut files = BTreeMap::new();
    for stream in [Stream::Stdout, Stream::Stderr, Stream::Pty] {
        let Some(proof) = evidence.streams.get(stream.as_str()).filter(|proof| proof.bytes > 0) else { continue };
        let blob = blob_of(&proof.sha256, proof.bytes).ok_or_else(|| wrong(run, "a stream has no hash".into()))?;
        files.insert(RunFile::of_stream(stream).name().to_owned(), blob);
    }
    Ok(files)
}

fn wrong(run: RunId, message: String) -> Error {
    Error::Corrupt { run: run.to_string(), message: format!("its files: {message}") }
}

/// A shared file that is gone or damaged is the run's.
fn of_run(run: RunId, error: Error) -> Error {
    match error {
        Error::Blobs(crate::blobs::Error::NotFound { .. }) => Error::FilesGone { run },
        Error::Blobs(crate::blobs::Error::Damaged { sha256, reason }) => {
            Error::Damaged { run, file: sha256, message: format!("the shared file: {reason}") }
        }
        error => error,
    }
}
