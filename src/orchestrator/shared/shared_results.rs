//! Results that runs share: for each run whose result was taken, one folder of links to its files. It outlives that run, so
//! whoever took its result needs no folder of its own.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::domain::artifact::ArtifactEntry;
use crate::domain::event::Started;
use crate::domain::ids::{RequestId, RunId};
use crate::domain::proven_file::ProvenFile;
use crate::files::{self, Marks};
use crate::orchestrator::shared::request_files::proven_request;
use crate::orchestrator::shared::result_text::HashedResult;

/// Most results that are known in memory.
const KNOWN_MAX: usize = 4096;

/// What the log of a run says that takes a result.
pub(crate) struct SharedResult {
    pub artifacts: Vec<ArtifactEntry>,
    pub result: HashedResult,
    /// How the result was validated, as all runs have it.
    pub validation: Option<ProvenFile>,
}

impl SharedResult {
    /// The files of a run without a folder that takes this result, besides the artifacts.
    pub(crate) fn files_of(&self, started: &Started) -> Vec<ProvenFile> {
        let result = self.result.proven(started.request_id, &self.artifacts);
        proven_request(started).chain([result]).chain(self.validation.clone()).collect()
    }
}

/// The shared results of one data folder. Calls block on the disk.
#[derive(Default)]
pub(crate) struct SharedResults {
    known: Mutex<HashMap<RunId, Known>>,
    /// Runs that took a result in this process, so that their logs are known to fit it.
    takers: Mutex<HashSet<RunId>>,
    /// Held while a folder is read or made.
    pub working: Mutex<()>,
}

struct Known {
    /// The folder as it was when it was last found whole; none until every later change would show in it.
    marks: Option<Arc<Marks>>,
    result: Arc<SharedResult>,
}

impl SharedResults {
    /// The result in this folder, if it was found whole before and has not changed since.
    pub(crate) fn unchanged(&self, source: RunId, folder: &Path) -> Option<Arc<SharedResult>> {
        let (marks, result) = {
            let known = self.known();
            let known = known.get(&source)?;
            (known.marks.clone()?, known.result.clone())
        };
        marks.still_fit(folder).then_some(result)
    }

    /// A run takes this result.
    pub(crate) fn note_taker(&self, run: RunId) {
        let mut takers = self.takers();
        if takers.len() >= KNOWN_MAX {
            // Whoever asks for the result of one that is forgotten is given it from the files.
            takers.clear();
        }
        takers.insert(run);
    }

    /// The file with the result of a run that took it, if it is short and nothing has changed since.
    pub(crate) fn taken(&self, run: RunId, request: RequestId, source: RunId, folder: &Path) -> Option<Vec<u8>> {
        let took = self.takers().contains(&run);
        let result = took.then(|| self.unchanged(source, folder)).flatten()?;
        result.result.of(request, &result.artifacts)
    }

    /// Looks at a folder; what it holds is known from now on, until the folder changes.
    pub(crate) fn look(
        &self,
        source: RunId,
        folder: &Path,
        check: impl FnOnce(&Path) -> Result<SharedResult, String>,
    ) -> Result<Arc<SharedResult>, String> {
        let began = SystemTime::now();
        let before = Marks::of(folder).map_err(|error| error.to_string())?;
        let result = Arc::new(check(folder)?);
        let same = Marks::of(folder).is_ok_and(|after| after == before);
        let marks = (same && before.is_stable_at(began)).then(|| Arc::new(before));
        let mut known = self.known();
        if known.len() >= KNOWN_MAX {
            // Whatever is forgotten is looked at again when it is next needed.
            known.clear();
        }
        known.insert(source, Known { marks, result: result.clone() });
        Ok(result)
    }

    /// Sets aside the results of other runs than these, to be removed; no run that takes one may be under way to its row.
    pub(crate) fn set_aside_others(&self, folder: &Path, needed: &BTreeSet<RunId>) -> Vec<PathBuf> {
        let _working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        self.known().retain(|source, _| needed.contains(source));
        files::set_aside(folder, |name| name.parse().is_ok_and(|source| needed.contains(&source)))
    }

    fn takers(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.takers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<RunId, Known>> {
        // Every change of the map is a single call, so a poisoned lock is usable.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
