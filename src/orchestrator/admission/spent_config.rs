//! The configuration that a client sent for an engine: it may hold secrets, and goes with the end of its run.

use std::path::Path;
use std::sync::Arc;

use crate::domain::ids::RequestId;
use crate::domain::state::RunState;
use crate::files;
use crate::orchestrator::shared::Shared;
use crate::workspace::Layout;

/// A run is over: nobody needs its configuration any more. It goes in the background.
pub(crate) fn remove_soon(shared: &Arc<Shared>, state: &RunState) {
    let request = state.request_id;
    if is_there(&shared.layout.request_engine_config(request)) {
        let owned = shared.clone();
        shared.tasks.spawn(async move {
            let layout = owned.layout.clone();
            // What stays is removed by the next start.
            let _ = owned.blocking.run("remove the configuration of a request", move || remove(&layout, request)).await;
        });
    }
}

/// Removes it, and the folder of the request if nothing else is in it. Blocks.
pub(crate) fn remove(layout: &Layout, request: RequestId) {
    if files::remove_file(&layout.request_engine_config(request)).is_ok() {
        files::remove_empty(&layout.request(request));
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
