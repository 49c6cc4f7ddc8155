//! The files of a finished run, each held against the run's proof before it is shown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::artifact::{self, Manifest};
use crate::domain::artifact::ArtifactEntry;
use crate::domain::event::Event;
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::outcome::Proof;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::fcmp::{LogHead, read_envelope};
use crate::files::{LookupError, for_each_chunk, open_beneath};
use crate::orchestrator::error::Error;
use crate::orchestrator::inspect::pace::Pace;
use crate::orchestrator::log::checked::SMALL;
use crate::orchestrator::log::run_log::RunLog;

/// Longest manifest that is read.
const MANIFEST_MAX: u64 = 512 << 20;

/// A finished run's folder and what its files must be.
#[derive(Clone)]
pub(crate) struct ProvenRun {
    log: RunLog,
    pub run: RunId,
    root: PathBuf,
    proof: Arc<Proof>,
}

/// An open file of a run.
pub(crate) struct ProvenContent {
    pub file: File,
    pub size: u64,
    /// What its bytes must hash to, where the proof says so.
    pub sha256: Option<String>,
    /// All of a short file, just found whole.
    pub bytes: Option<Bytes>,
}

impl RunLog {
    /// The files of a run in their folder, to be held against its proof; none while it goes on.
    pub(crate) async fn proven(&self, run: RunId) -> Result<Option<ProvenRun>, Error> {
        let head = self.head(run).await?;
        if !head.state.status().is_final() {
            return Ok(None);
        }
        let root = self.folder(run).await?.root;
        if root.symlink_metadata().is_err() {
            return Err(self.files_gone(run));
        }
        let proof = Arc::new(self.proof(&head).await?);
        Ok(Some(ProvenRun { log: self.clone(), run, root, proof }))
    }

    /// The same where the run has a folder: one that took an equal run's result may have none.
    pub(crate) async fn proven_in_folder(&self, run: RunId) -> Result<Option<ProvenRun>, Error> {
        self.fetch_files(run).await?;
        let state = self.head(run).await?.state;
        if state.cached_from.is_some() && self.paths(run).root.symlink_metadata().is_err() {
            return Ok(None);
        }
        self.proven(run).await
    }

    /// The proof in a finished run's last event. The run's row vouches for that event: its hash chain goes over it.
    pub(crate) async fn proof(&self, head: &LogHead) -> Result<Proof, Error> {
        let state = &head.state;
        let damaged = |message: &str| self.damaged(state.run_id, RunFile::Events.name(), message.to_owned());
        let page = self.last(head).await?;
        let last = page.first().and_then(|batch| batch.events().next());
        let (_, last) = last.ok_or_else(|| damaged("its last event is missing"))?;
        let event = read_envelope(&last).map_err(|error| damaged(&error.to_string()))?.event;
        let proof = match event {
            Some(Event::Completed(completed)) => completed.proof,
            Some(Event::Failed(failed)) => failed.proof,
            Some(_) | None => return Err(damaged("its last event does not end the run")),
        };
        if head.is_after(&proof.chain_sha256, &last) { Ok(proof) } else { Err(damaged("its last event was changed")) }
    }
}

impl ProvenRun {
    /// The run's manifest. Blocks.
    pub(crate) fn manifest(&self) -> Result<Manifest, Error> {
        let name = RunFile::Manifest.name();
        let file = self.look_up(name).map_err(|error| self.missing(name, error))?;
        let mut bytes = Vec::new();
        file.take(MANIFEST_MAX).read_to_end(&mut bytes).map_err(Error::io(format!("read {name}")))?;
        let manifest = Manifest::read(&bytes).map_err(|message| self.damaged(name, message))?;
        let fits = artifact::artifacts_sha256(&manifest.artifacts) == self.proof.artifacts_sha256
            && (self.proof.files_sha256.is_none() || manifest.files_sha256() == self.proof.files_sha256);
        if !fits {
            return Err(self.damaged(name, "its lists are not those of the proof".to_owned()));
        }
        self.log.damage().clear(self.run, name);
        Ok(manifest)
    }

    /// An artifact by its path, and its content; none where the run has no such artifact. Blocks.
    pub(crate) fn artifact(&self, path: &str) -> Result<Option<(ArtifactEntry, ProvenContent)>, Error> {
        let entry = self.manifest()?.artifacts.into_iter().find(|entry| entry.path_rel == path);
        let Some(entry) = entry else { return Ok(None) };
        let content = self.content(path, Some((entry.size, entry.sha256.clone())))?;
        Ok(Some((entry, content)))
    }

    /// The result's text. Blocks.
    pub(crate) fn result(&self) -> Result<Bytes, Error> {
        let name = RunFile::Result.name();
        let Some(sha256) = &self.proof.result_sha256 else { return self.read_all(self.content(name, None)?, name) };
        let size = match self.look_up(name) {
            Ok(file) => file.metadata().map_err(Error::io(format!("look at {name}")))?.len(),
            Err(error) => return Err(self.missing(name, error)),
        };
        self.read_all(self.content(name, Some((size, sha256.clone())))?, name)
    }

    /// Every file that the proof names, with its length and hash. Blocks.
    pub(crate) fn all(&self) -> Result<BTreeMap<String, (u64, String)>, Error> {
        let manifest = self.manifest()?;
        let artifacts = manifest.artifacts.into_iter().map(|entry| (entry.path_rel, (entry.size, entry.sha256)));
        let files = manifest.files.unwrap_or_default().into_iter().map(|file| (file.path, (file.size, file.sha256)));
        let mut all: BTreeMap<_, _> = artifacts.chain(files).collect();
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Pty] {
            if let Some(proof) = self.proof.streams.get(stream.as_str()).filter(|proof| proof.bytes > 0) {
                all.insert(RunFile::of_stream(stream).name().to_owned(), (proof.bytes, proof.sha256.clone()));
            }
        }
        Ok(all)
    }

    /// Where its files are.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A copy of a file was made: whether it is what the file was when the run ended.
    pub(crate) fn compare_copy(&self, path: &str, found: &str, expected: &str) -> Result<(), Error> {
        self.compare(path, found, expected)
    }

    /// The hash of the result's file, by the proof.
    pub(crate) fn result_sha256(&self) -> Option<&str> {
        self.proof.result_sha256.as_deref()
    }

    /// A file of the run: none where there is none and the proof names none, an error where it is not what it was. Blocks.
    pub(crate) fn open_optional(&self, path: &str) -> Result<Option<ProvenContent>, Error> {
        let expected = self.expected(path)?;
        let nothing = expected.as_ref().is_none_or(|(size, _)| *size == 0);
        match self.look_up(path) {
            Err(LookupError::NotFound) if nothing => Ok(None),
            Err(LookupError::NotAFile | LookupError::Unsafe { .. }) if expected.is_none() => Ok(None),
            Ok(_) | Err(_) => self.content(path, expected).map(Some),
        }
    }

    /// Reads a file to its end, whatever is known of it, and without haste. Blocks.
    pub(crate) fn check(&self, path: &str, expected: (u64, String), pace: &mut Pace) -> Result<(), Error> {
        let file = self.look_up(path).map_err(|error| self.missing(path, error))?;
        let wrong = |size: u64| format!("it has {size} bytes, and should have {}", expected.0);
        // One that is longer than it was is not read, however long it is.
        let found = file.metadata().map_err(Error::io(format!("look at {path}")))?.len();
        if found > expected.0 {
            return Err(self.damaged(path, wrong(found)));
        }
        let (mut hash, mut size) = (Sha256::new(), 0);
        let read = |chunk: &[u8]| {
            hash.update(chunk);
            size += chunk.len() as u64;
            if pace.took(chunk.len() as u64) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        };
        for_each_chunk(&file, |error| error, read).map_err(Error::io(format!("read {path}")))?;
        if size != expected.0 {
            return Err(self.damaged(path, wrong(size)));
        }
        self.compare(path, &hex::encode(hash.finalize()), &expected.1)
    }

    /// Length and hash of a file by the proof.
    fn expected(&self, path: &str) -> Result<Option<(u64, String)>, Error> {
        let streams = [Stream::Stdout, Stream::Stderr, Stream::Pty];
        if let Some(stream) = streams.into_iter().find(|stream| RunFile::of_stream(*stream).name() == path) {
            let proof = self.proof.streams.get(stream.as_str());
            return Ok(proof.map(|proof| (proof.bytes, proof.sha256.clone())));
        }
        if RunFolder::Artifacts.strip(path).is_some() {
            let entry = self.manifest()?.artifacts.into_iter().find(|entry| entry.path_rel == path);
            return Ok(entry.map(|entry| (entry.size, entry.sha256)));
        }
        if !artifact::is_proven(path) || self.proof.files_sha256.is_none() {
            return Ok(None);
        }
        let listed = self.manifest()?.files.unwrap_or_default().into_iter().find(|file| file.path == path);
        Ok(listed.map(|file| (file.size, file.sha256)))
    }

    fn content(&self, path: &str, expected: Option<(u64, String)>) -> Result<ProvenContent, Error> {
        let reading = || format!("read {path}");
        let mut file = self.look_up(path).map_err(|error| self.missing(path, error))?;
        let found = file.metadata().map_err(Error::io(reading()))?;
        let Some((size, sha256)) = expected else {
            return Ok(ProvenContent { file, size: found.len(), sha256: None, bytes: None });
        };
        if found.len() != size {
            let message = format!("it has {} bytes, and should have {size}", found.len());
            return Err(self.damaged(path, message));
        }
        let place = self.root.join(path);
        let mut bytes = None;
        if size <= SMALL {
            let mut all = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
            (&file).take(SMALL + 1).read_to_end(&mut all).map_err(Error::io(reading()))?;
            self.compare(path, &hex::encode(Sha256::digest(&all)), &sha256)?;
            bytes = Some(Bytes::from(all));
        } else if !self.log.checked().is_unchanged(&place, &found) {
            let mut hash = Sha256::new();
            let add = |chunk: &[u8]| {
                hash.update(chunk);
                Ok::<(), io::Error>(())
            };
            for_each_chunk(&file, |error| error, add).map_err(Error::io(reading()))?;
            self.compare(path, &hex::encode(hash.finalize()), &sha256)?;
            file.rewind().map_err(Error::io(reading()))?;
            self.log.checked().put(&place, &found);
        }
        Ok(ProvenContent { file, size, sha256: Some(sha256), bytes })
    }

    fn compare(&self, path: &str, found: &str, expected: &str) -> Result<(), Error> {
        if found != expected {
            return Err(self.damaged(path, format!("its sha256 is {found}, and should be {expected}")));
        }
        self.log.damage().clear(self.run, path);
        Ok(())
    }

    fn read_all(&self, content: ProvenContent, path: &str) -> Result<Bytes, Error> {
        if let Some(bytes) = content.bytes {
            return Ok(bytes);
        }
        let mut bytes = Vec::new();
        (&content.file).read_to_end(&mut bytes).map_err(Error::io(format!("read {path}")))?;
        // Read once more, so checked once more.
        if let Some(expected) = &content.sha256 {
            self.compare(path, &hex::encode(Sha256::digest(&bytes)), expected)?;
        }
        Ok(bytes.into())
    }

    fn look_up(&self, path: &str) -> Result<File, LookupError> {
        open_beneath(&self.root, Path::new(path))
    }

    /// A file that the run had when it ended cannot be opened.
    fn missing(&self, path: &str, error: LookupError) -> Error {
        match error {
            LookupError::Io { source } => Error::io(format!("open {path}"))(source),
            LookupError::NotFound if self.root.symlink_metadata().is_err() => self.log.files_gone(self.run),
            error @ (LookupError::NotFound | LookupError::NotAFile | LookupError::Unsafe { .. }) => {
                self.damaged(path, error.to_string())
            }
        }
    }

    /// While it was sent, a file turned out not to be what it was.
    pub(crate) fn changed_meanwhile(&self, path: &str) -> Error {
        self.damaged(path, "it was changed while it was sent".to_owned())
    }

    pub(crate) fn damaged(&self, file: &str, message: String) -> Error {
        self.log.damaged(self.run, file, message)
    }
}
