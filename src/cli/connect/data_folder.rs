//! Opens the data folder for this process alone.

use std::sync::Arc;

use tracing::error;

use crate::cli::failure::Failure;
use crate::domain::causes::chain;
use crate::domain::codes::Exit;
use crate::orchestrator::Orchestrator;
use crate::registry::Registry;
use crate::settings::Settings;
use crate::store::{EventStore, SledStore};
use crate::supervisor;

/// Opens the store; creates the data folder if it is missing.
pub(crate) fn open_store(settings: &Settings) -> Result<Arc<dyn EventStore>, Failure> {
    let data_dir = &settings.paths.data_dir;
    std::fs::create_dir_all(data_dir).map_err(Failure::broken(format!("create {}", data_dir.display())))?;
    let store = SledStore::open(data_dir, |failed| {
        error!(error = %chain(failed), "the event store failed; ending, because only a restart can find out what is on disk");
        // At once and without clean-up: after a failed sync no write may be retried.
        std::process::exit(Exit::Failed.status().into());
    })?;
    Ok(Arc::new(store))
}

/// Starts an orchestrator on the data folder.
pub(crate) async fn take_over(
    store: Arc<dyn EventStore>,
    registry: Registry,
    settings: Settings,
) -> Result<Orchestrator, Failure> {
    Ok(Orchestrator::start(store, registry, settings, supervisor::THIS_PROGRAM.into()).await?)
}
