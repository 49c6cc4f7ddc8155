//! Installations as all services tell of them: a client may ask another one than it sent its package to.

use tracing::warn;
use uuid::Uuid;

use crate::bounded;
use crate::domain::causes::chain;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::packages::record::{Install, KEPT, Records};
use crate::orchestrator::shared::Shared;
use crate::store::{Expected, RecordChange};

/// The kind of the records.
const KIND: &str = "skill_install";

/// Lets other services tell where an installation is. Should that fail, this service alone tells of it.
pub(crate) async fn share_install(shared: &Shared, install: &Install) {
    let Some(group) = shared.group() else { return };
    let share = async {
        let value = serde_json::to_vec(install).map_err(|error| Error::io("share the installation")(error.into()))?;
        let change = |key: String, value| {
            let change =
                RecordChange { kind: KIND, key, expected: Expected::Any, value, files: Vec::new(), put_after: 0 };
            group.cluster.change_record(change)
        };
        change(install.request_id.to_string(), Some(value.into())).await?;
        if !install.status.is_final() {
            return Ok(());
        }
        // The oldest first: their ids begin with the time.
        let records = group.cluster.records(KIND).await?.records;
        for record in records.iter().take(records.len().saturating_sub(KEPT)) {
            change(record.key.clone(), None).await?;
        }
        Ok::<_, Error>(())
    };
    if let Err(error) = share.await {
        warn!(install = %install.request_id, error = %chain(&error), "other services cannot tell of an installation");
    }
}

impl Orchestrator {
    /// An installation as it is now.
    pub async fn install_of(&self, id: Uuid) -> Result<Option<Install>, Error> {
        let records = Records::new(&self.shared.layout);
        let here = self.shared.blocking.run("read the installation", move || records.read(id)).await??;
        let (None, Some(group)) = (&here, self.shared.group()) else { return Ok(here) };
        let Some(record) = group.cluster.record(KIND, &id.to_string()).await? else { return Ok(None) };
        let read: Result<Install, _> = bounded::json::from_slice(&record.value);
        let mut install =
            read.map_err(|error| Error::io("read a shared installation")(std::io::Error::other(error)))?;
        // Its service may have died after it was done and before it was told.
        if !install.status.is_final()
            && let Some(done) = self.shared.made_changes().await?.remove(&id)
        {
            install.succeed(done);
        }
        Ok(Some(install))
    }
}
