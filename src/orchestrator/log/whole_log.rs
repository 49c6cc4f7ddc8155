//! The whole log of a run as one file, and what it says about the files that the run was given.

use std::fs::File;
use std::io::{Seek, Write};

use crate::domain::event::{Event, Uploaded};
use crate::domain::ids::{RunId, Seq};
use crate::domain::run_file::RunFile;
use crate::fcmp::{LogHead, read_envelope};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::run_log::RunLog;
use crate::orchestrator::log::sealed_check::{Flaw, check_sealed};
use crate::store::EventBatch;

impl RunLog {
    /// The log of a run, copied to a file without a name.
    pub(crate) async fn log_copy(&self, run: RunId, head: Seq) -> Result<File, Error> {
        let doing = "copy the log";
        // In the data folder, because the one for temporary files may be memory.
        let mut copy = tempfile::tempfile_in(self.layout().data()).map_err(Error::io(doing))?;
        let mut events = self.events(run, Seq::START);
        while let Some(page) = events.next_page().await? {
            let write = move || page.iter().try_for_each(|batch| copy.write_all(&batch.ndjson)).map(|()| copy);
            copy = self.blocking().run(doing, write).await?.map_err(Error::io(doing))?;
        }
        if events.at() != head {
            let message = format!("it ends at {}, before {head}", events.at());
            return Err(Error::Corrupt { run: run.to_string(), message });
        }
        copy.rewind().map(|()| copy).map_err(Error::io(doing))
    }

    /// Whether the sealed log in the folder of a finished run is all that was logged.
    pub(crate) async fn sealed_is_whole(&self, head: LogHead) -> Result<bool, Error> {
        let path = self.paths(head.state.run_id).file(RunFile::Events);
        let checked = self.checked().clone();
        let check = move || match check_sealed(&path, &head, &checked) {
            Ok(()) => Ok(true),
            Err(Flaw::Damaged(_)) => Ok(false),
            Err(Flaw::Io(source)) => Err(Error::io(format!("read {}", path.display()))(source)),
        };
        self.blocking().run("check a sealed log", check).await?
    }

    /// The list of the files that were uploaded for a run; none if it was given none.
    pub(crate) async fn uploaded(&self, run: RunId) -> Result<Option<Uploaded>, Error> {
        let corrupt = |message: String| Error::Corrupt { run: run.to_string(), message };
        let mut events = self.events(run, Seq::START);
        while let Some(page) = events.next_page().await? {
            for (seq, bytes) in page.iter().flat_map(EventBatch::events) {
                let envelope = read_envelope(&bytes).map_err(|error| corrupt(format!("event {seq}: {error}")))?;
                match envelope.event {
                    Some(Event::Uploaded(uploaded)) => return Ok(Some(*uploaded)),
                    // Files come before the first turn.
                    Some(Event::TurnStarted(_)) => return Ok(None),
                    Some(_) | None => {}
                }
            }
        }
        Ok(None)
    }
}
