//! The package that belongs to one run alone: removed when the run is over.

use std::path::Path;
use std::sync::Arc;

use tracing::warn;

use crate::domain::causes::chain;
use crate::domain::state::RunState;
use crate::files;
use crate::orchestrator::shared::Shared;

/// A temporary run is over: its package goes, in the background.
pub(crate) fn remove_soon(shared: &Arc<Shared>, state: &RunState) {
    let (owned, state) = (shared.clone(), state.clone());
    shared.tasks.spawn(async move { remove(&owned, &state).await });
}

/// Remove the package of a run that is over.
pub(crate) async fn remove(shared: &Shared, state: &RunState) {
    let run = state.run_id;
    let root = shared.layout.run(run).root;
    let request = shared.layout.request(state.request_id);
    let removed = shared.blocking.run("remove a package", move || {
        remove_copies(&root)?;
        files::remove_tree(&request)
    });
    match removed.await {
        Ok(Ok(_)) => {
            shared.temp_runs().remove(&run);
        }
        Ok(Err(error)) => warn!(run.id = %run, error = %chain(&error), "a package was not removed; trying again later"),
        Err(error) => warn!(run.id = %run, error = %chain(&error), "a package was not removed; trying again later"),
    }
}

/// Remove every engine's skills from a run's folder; they are this run's package, or what an upload before it left.
/// Blocks.
pub(crate) fn remove_copies(root: &Path) -> Result<(), files::Error> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let engines =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with('.')).map(|entry| entry.path());
    for engine in engines.filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_dir())) {
        files::remove_tree(&engine.join("skills"))?;
        // Where it held nothing else.
        files::remove_empty(&engine);
    }
    Ok(())
}
