//! A finished run as one file.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use crate::artifact;
use crate::domain::ids::{RunId, Seq};
use crate::export;
use crate::export::{About, EVENTS, Piece, Written};
use crate::files::{LookupError, open_beneath};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::run_log::RunLog;
use crate::store::EventBatch;

/// Bytes of events read at once.
const READ_BYTES: usize = 1024 * 1024;

impl RunLog {
    /// Writes a finished run as one file. A run that goes on is refused: what proves an export is its terminal event.
    pub fn export(&self, run: RunId, out: &mut impl Write) -> Result<Written, Error> {
        let state = self.head(run)?.state;
        if !state.status.is_final() {
            return Err(Error::NotReady);
        }
        let root = self.paths(run).root;
        let mut names: Vec<String> = export::FILES.iter().map(|file| file.name().to_owned()).collect();
        for folder in export::FOLDERS {
            names.extend(artifact::files_below(&root, folder.name())?);
        }
        let mut files = Vec::new();
        for name in names {
            if let Some(piece) = piece(&root, &name)? {
                files.push((name, piece));
            }
        }
        if !files.iter().any(|(name, _)| name == EVENTS) {
            files.push((EVENTS.to_owned(), self.unsealed(run, state.head_seq)?));
        }
        let about = About { run_id: run, request_id: state.request_id, status: state.status, events: state.head_seq.0 };
        Ok(export::write(about, files, out)?)
    }

    /// The log of a run whose sealed file is still to come.
    fn unsealed(&self, run: RunId, head: Seq) -> Result<Piece, Error> {
        let doing = "copy the log";
        // In the data folder, because the one for temporary files may be memory.
        let mut copy = tempfile::tempfile_in(self.layout().data()).map_err(Error::io(doing))?;
        let mut at = Seq::START;
        loop {
            let batches = self.read(run, at, READ_BYTES)?;
            let Some(last) = batches.last().map(EventBatch::last) else { break };
            at = last;
            batches.iter().try_for_each(|batch| copy.write_all(&batch.ndjson)).map_err(Error::io(doing))?;
        }
        if at != head {
            let message = format!("it ends at {at}, before {head}");
            return Err(Error::Corrupt { run: run.to_string(), message });
        }
        copy.rewind().and_then(|()| Piece::whole(copy)).map_err(Error::io(doing))
    }
}

/// A file of the run; none where there is none, or something that is no file.
fn piece(root: &Path, name: &str) -> Result<Option<Piece>, Error> {
    let whole = |file: File| Piece::whole(file).map(Some).map_err(Error::io(format!("look at {name}")));
    match open_beneath(root, Path::new(name)) {
        Ok(file) => whole(file),
        Err(LookupError::NotFound | LookupError::NotAFile | LookupError::Unsafe { .. }) => Ok(None),
        Err(LookupError::Io { source }) => Err(Error::io(format!("open {name}"))(source)),
    }
}
