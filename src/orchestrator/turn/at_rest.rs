//! Commands for a run whose engine does not run: if they end it, its last files are written first.

use std::sync::Arc;

use crate::domain::command::Command;
use crate::domain::outcome::RunError;
use crate::orchestrator::admission::effects::perform;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::{Journal, Step};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::turn::last_files;

/// Carry out a command: last files if it ends the run, the log, then what follows.
pub(crate) async fn commit(shared: &Arc<Shared>, journal: &mut Journal, command: Command) -> Result<(), Error> {
    log(shared, journal, command).await?;
    perform(shared, journal.state());
    Ok(())
}

/// The same, without what follows.
pub(crate) async fn log(shared: &Arc<Shared>, journal: &mut Journal, command: Command) -> Result<(), Error> {
    let Some(ending) = journal.ending(&command) else { return journal.commit(command).await };
    let held = shared.ensure_files(journal.state()).await?;
    let last_files = Some(last_files::without_engine(shared, journal.state(), &ending).await?);
    let along = shared.files_after(journal.state(), last_files.as_ref()).await?;
    let mark = along.mark.clone();
    journal.commit_with(Step { command, last_files }, along).await?;
    held.settled(shared.files(), mark).await;
    Ok(())
}

/// The run cannot start.
pub(crate) async fn reject(shared: &Arc<Shared>, journal: &mut Journal, error: RunError) -> Result<(), Error> {
    commit(shared, journal, Command::Reject { error }).await
}
