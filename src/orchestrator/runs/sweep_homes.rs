//! Homes of engines whose runs are gone: they hold transcripts, so they are looked for again and again.

use std::sync::Arc;

use tracing::{info, warn};

use crate::domain::causes::chain;
use crate::domain::ids::RunId;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::shared::Shared;
use crate::store::IndexKey;
use crate::workspace::removable;

impl Orchestrator {
    /// Remove the homes of engines that belong to no run.
    pub async fn sweep_homes(&self) {
        sweep_homes(&self.shared).await;
    }
}

pub(crate) async fn sweep_homes(shared: &Arc<Shared>) {
    match sweep(shared).await {
        Ok(0) => {}
        Ok(removed) => info!(removed, "removed homes of engines whose runs are gone"),
        Err(error) => warn!(error = %chain(&error), "homes of engines could not be swept"),
    }
}

async fn sweep(shared: &Arc<Shared>) -> Result<usize, Error> {
    let homes = shared.layout.homes();
    let list = move || {
        let entries = std::fs::read_dir(homes).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect::<Vec<RunId>>()
    };
    let mut orphans = Vec::new();
    for run in shared.blocking.run("list the homes of engines", list).await? {
        // A home is made when its run is on record, and removed when it no longer is. That of a run which the store has lost stays.
        let paths = shared.layout.run(run);
        if shared.store.index(&IndexKey::Run(run)).await?.is_none() && removable::is_removable(&paths) {
            orphans.push(paths.home);
        }
    }
    let count = orphans.len();
    let remove = move || orphans.iter().try_for_each(|home| files::remove_tree(home).map(drop));
    shared.blocking.run("remove homes of engines", remove).await??;
    Ok(count)
}
