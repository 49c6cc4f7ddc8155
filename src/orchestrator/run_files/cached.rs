//! What this disk holds of runs whose files are shared: how much that is, and how it is given up.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::mark::{last_used, set_used, unused_for};
use super::{Mark, Row, RunFiles};
use crate::domain::ids::RunId;
use crate::domain::state::RunState;
use crate::files;
use crate::orchestrator::error::Error;
use crate::workspace::{self, Layout, RunPaths};

/// A run whose files are here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cached {
    pub run: RunId,
    /// Since when nobody has asked for them, about.
    pub unused_for: Duration,
    pub bytes: u64,
}

/// How much the files of runs take, by what this disk says that it has: measured once, since they do not change while it says so.
pub(crate) type Sizes = HashMap<RunId, (Mark, u64)>;

/// The runs of which this disk says that it has their files, least recently used first. Blocks.
pub(crate) fn cached(layout: &Layout, sizes: &mut Sizes) -> Vec<Cached> {
    let entries = std::fs::read_dir(layout.cached()).into_iter().flatten().flatten();
    let mut now = Sizes::new();
    let mut found = Vec::new();
    for entry in entries {
        let Some(run) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let paths = layout.run(run);
        let (Some(mark), Some(unused_for)) = (Mark::read(&paths), unused_for(&paths)) else { continue };
        let known = sizes.get(&run).filter(|(before, _)| *before == mark).map(|(_, bytes)| *bytes);
        let measure = || [paths.root, paths.home, paths.sealed].into_iter().map(files::tree_size).sum();
        let bytes = known.unwrap_or_else(measure);
        now.insert(run, (mark, bytes));
        found.push(Cached { run, unused_for, bytes });
    }
    *sizes = now;
    found.sort_unstable_by_key(|cached| std::cmp::Reverse(cached.unused_for));
    found
}

impl RunFiles {
    /// When the files of a run on this disk were last used; none if they are not here.
    pub(crate) fn last_used(&self, run: RunId) -> Option<SystemTime> {
        last_used(&self.layout.run(run))
    }

    /// Whoever looked at them since then did not need them.
    pub(crate) fn not_used_since(&self, run: RunId, moment: SystemTime) {
        set_used(&self.layout.run(run), moment);
    }

    /// Removes the files of a run from this disk, if all of them are shared, nobody has used them for so long, and nobody here works
    /// on the run; the bytes that this freed.
    pub(crate) async fn evict(&self, state: &RunState, unused: Duration) -> Result<u64, Error> {
        let run = state.run_id;
        let _alone = self.lock(run).await;
        let paths = self.layout.run(run);
        let look = move || Mark::read(&paths).filter(|_| unused_for(&paths).is_some_and(|time| time >= unused));
        let mark = self.blocking.run("look at cached files of a run", look).await?;
        let (Some(row), Some(mark)) = (self.row(run).await?, mark) else { return Ok(0) };
        if self.held().contains(&run) || !is_shared(state, &row, &mark) {
            return Ok(0);
        }
        let (paths, request) = (self.layout.run(run), self.layout.request(state.request_id));
        self.blocking.run("remove cached files of a run", move || remove(&paths, Some(request))).await?
    }

    /// Removes what this disk holds of a run that was deleted.
    pub(crate) async fn evict_deleted(&self, run: RunId) -> Result<u64, Error> {
        let _alone = self.lock(run).await;
        if self.held().contains(&run) {
            return Ok(0);
        }
        let paths = self.layout.run(run);
        self.blocking.run("remove files of a deleted run", move || remove(&paths, None)).await?
    }
}

/// Whether everything of a run that others could ask for is shared.
fn is_shared(state: &RunState, row: &Row, mark: &Mark) -> bool {
    match (&row.end, &row.files, state.status().is_final()) {
        // The sealed log goes with the folder, so it has to be shared as well.
        (Some(end), _, true) => row.sealed.is_some() && *mark == Mark::end(&end.manifest),
        (None, Some(files), false) => *mark == Mark::rest(files),
        _ => false,
    }
}

/// Whoever finds the mark gone fetches the files again, so it goes first.
fn remove(paths: &RunPaths, request: Option<PathBuf>) -> Result<u64, Error> {
    files::remove_file(&paths.state)?;
    let uploads = request.map_or(Ok(0), |request| files::remove_tree(&request))?;
    Ok(uploads + workspace::remove_run(paths)?)
}
