//! A finished run as one file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use crate::artifact;
use crate::domain::ids::{RunId, Seq};
use crate::export;
use crate::export::{About, EVENTS, Piece, Written};
use crate::files::{LookupError, open_beneath};
use crate::orchestrator::error::Error;
use crate::orchestrator::inspect::proven_run::ProvenRun;
use crate::orchestrator::log::run_log::RunLog;

/// Most bytes of a run's files in an export: all that a proof can be about (4 GiB of artifacts, 4 GiB of other files), and logs.
const EXPORT_MAX: u64 = 16 << 30;

/// A finished run, ready to be written as one file.
pub struct Export {
    about: About,
    files: Vec<(String, Piece)>,
    proven: ProvenRun,
}

impl Export {
    /// About how many bytes it will have.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, piece)| piece.size()).sum()
    }

    /// Write the file. An error if anything in it is not what it was when the run ended. Blocks.
    pub(crate) fn write(self, out: &mut impl Write) -> Result<Written, Error> {
        let all = self.proven.all()?;
        // One that is longer than it was is not copied, however long it is.
        for (path, piece) in &self.files {
            if let Some((size, _)) = all.get(path).filter(|(size, _)| *size != piece.size()) {
                let message = format!("it has {} bytes, and should have {size}", piece.size());
                return Err(self.proven.damaged(path, message));
            }
        }
        let written = export::write(self.about, self.files, out)?;
        let found: BTreeMap<&str, &str> =
            written.contents.files.iter().map(|file| (file.path.as_str(), file.sha256.as_str())).collect();
        for (path, (_, sha256)) in all.iter().filter(|(path, _)| export::is_exported(path)) {
            let found =
                found.get(path.as_str()).ok_or_else(|| self.proven.damaged(path, "it is missing".to_owned()))?;
            self.proven.compare_copy(path, found, sha256)?;
        }
        Ok(written)
    }
}

impl RunLog {
    /// Everything a finished run's export holds. A run that goes on is refused: what proves an export is its terminal
    /// event.
    pub async fn export(&self, run: RunId) -> Result<Export, Error> {
        let head = self.head(run).await?;
        let (request_id, status, last) = (head.state.request_id, head.state.status(), head.state.head_seq);
        if !status.is_final() {
            return Err(Error::NotReady);
        }
        let proven = self.proven(run).await?.ok_or(Error::NotReady)?;
        // A sealed log that is not what was logged is refused here.
        self.read(run, Seq::START, 1).await?;
        let root = proven.root().to_owned();
        let mut files = self.blocking().run("look at the run's files", move || pieces(&root)).await??;
        if !self.sealed_is_whole(head).await? {
            // It is still to be sealed, or was damaged while the store has its events.
            let log = self.log_copy(run, last).await?;
            let log = Piece::whole(log).map_err(Error::io("look at the log"))?;
            files.retain(|(name, _)| name != EVENTS);
            files.push((EVENTS.to_owned(), log));
        }
        Ok(Export { about: About { run_id: run, request_id, status, events: last.0 }, files, proven })
    }
}

/// The files of the run that an export holds.
fn pieces(root: &Path) -> Result<Vec<(String, Piece)>, Error> {
    let mut names: Vec<String> = export::FILES.iter().map(|file| file.name().to_owned()).collect();
    for folder in export::FOLDERS {
        names.extend(artifact::files_below(root, folder.name())?);
    }
    let root: Arc<Path> = root.into();
    let mut files = Vec::new();
    let mut left = EXPORT_MAX;
    for name in names {
        let Some(piece) = piece(&root, &name)? else { continue };
        // A skill can make a file longer than any disk in no time. What is left out is not in the proof, either.
        if let Some(rest) = left.checked_sub(piece.size()) {
            left = rest;
            files.push((name, piece));
        }
    }
    Ok(files)
}

/// A file of the run; none where there is none, or something that is no file.
fn piece(root: &Arc<Path>, name: &str) -> Result<Option<Piece>, Error> {
    match open_beneath(root, Path::new(name)) {
        Ok(file) => {
            let size = file.metadata().map_err(Error::io(format!("look at {name}")))?.len();
            Ok(Some(Piece::named(root.clone(), name.to_owned(), size)))
        }
        Err(LookupError::NotFound | LookupError::NotAFile | LookupError::Unsafe { .. }) => Ok(None),
        Err(LookupError::Io { source }) => Err(Error::io(format!("open {name}"))(source)),
    }
}
