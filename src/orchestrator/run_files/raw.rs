//! Raw output that the store has and the files on this disk have not.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::RunFiles;
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::files;
use crate::orchestrator::error::Error;

/// Bytes that are asked for at once.
const PIECE_BYTES: usize = 1024 * 1024;

impl RunFiles {
    /// Adds it. Nobody else may write these files: the run's lock is held, and no process here works on the run.
    pub(super) async fn extend_raw(&self, run: RunId) -> Result<(), Error> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let (paths, file) = (self.layout.run(run), self.layout.run(run).file(RunFile::of_stream(stream)));
            let look = move || {
                files::ensure_folder(&paths.root)?;
                files::ensure_folder(&paths.folder(RunFolder::Logs))?;
                Ok::<_, Error>(file.symlink_metadata().map_or(0, |found| if found.is_file() { found.len() } else { 0 }))
            };
            let mut at = self.blocking.run("look at the run's logs", look).await??;
            loop {
                let pieces = self.store.raw(&run, stream, at, PIECE_BYTES).await?;
                let Some(last) = pieces.last() else { break };
                let end = last.from.saturating_add(last.bytes.len() as u64);
                if end <= at {
                    break;
                }
                let file = self.layout.run(run).file(RunFile::of_stream(stream));
                let write = move || pieces.iter().try_for_each(|piece| write_at(&file, piece.from, &piece.bytes));
                self.blocking.run("add to the run's logs", write).await??;
                at = end;
            }
        }
        Ok(())
    }
}

/// Writes bytes of a stream at their place. What an engine put in the place of the file is moved aside.
fn write_at(path: &Path, from: u64, bytes: &[u8]) -> Result<(), Error> {
    let mut file = match files::open_regular_to_write(path) {
        Ok(file) => file,
        Err(_) => {
            files::ensure_absent(path)?;
            files::create_new(path, false)?
        }
    };
    let written = file.seek(SeekFrom::Start(from)).and_then(|_| file.write_all(bytes));
    written.map_err(Error::io(format!("write {}", path.display())))
}
