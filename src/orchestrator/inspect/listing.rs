//! Runs listed without a service: as the rows of the store say.

use crate::domain::ids::RunId;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::run_log::RunLog;
use crate::orchestrator::runs::{ListFilter, Listing};
use crate::projection::{Job, job};

impl RunLog {
    /// A page of runs, newest first. No run has a place in a queue that nobody serves.
    pub(crate) async fn list(&self, filter: &ListFilter) -> Result<Listing, Error> {
        let page = filter.read(self.store(), self.blocking()).await?;
        page.listing(self.blocking(), |state| job(state, None)).await
    }

    /// One run as a job, with its metadata.
    pub(crate) async fn job(&self, run: RunId) -> Result<Job, Error> {
        let state = self.head(run).await?.state;
        let mut job = job(&state, None);
        job.metadata = self.metadata(&state).await?;
        Ok(job)
    }
}
