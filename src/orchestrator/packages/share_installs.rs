//! Installations as all services tell of them: a client may ask another one than it sent its package to.
//!
//! The record of one that is under way names the lease under which it changes its skill. When that is over, nothing can be changed under
//! it any more, and whoever looks says what became of it. Its own service goes on under another lease only if nobody has done so.

use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use uuid::Uuid;

use crate::bounded;
use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::packages::group::Group;
use crate::orchestrator::packages::record::{Install, InstallFailure, KEPT, Records};
use crate::orchestrator::shared::Shared;
use crate::store::{self, Changed, Expected, LeaseId, Record, RecordChange};

/// The kind of the records.
const KIND: &str = "skill_install";

/// The record of an installation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Told {
    #[serde(flatten)]
    install: Install,
    /// Under which it is carried out; not of services of the release before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseId>,
}

impl Told {
    fn read(record: &Record) -> Result<Self, Error> {
        let read: Result<Self, _> = bounded::json::from_slice(&record.value);
        read.map_err(|error| Error::io("read a shared installation")(std::io::Error::other(error)))
    }

    async fn write(&self, group: &Group<'_>, expected: Expected) -> Result<Changed, Error> {
        let value = serde_json::to_vec(self).map_err(|error| Error::io("share the installation")(error.into()))?;
        let (key, value) = (self.install.request_id.to_string(), Some(value.into()));
        let change = RecordChange { kind: KIND, key, expected, value, files: Vec::new(), put_after: 0 };
        Ok(group.cluster.change_record(change).await?)
    }
}

/// Under which lease an installation is carried out, as others know it.
#[derive(Debug, Default)]
pub(super) struct Claim(Option<LeaseId>);

impl Claim {
    /// The lease of this service, once others know that the installation is carried out under it. Refused if somebody has ended it since
    /// the lease before was over.
    pub(super) async fn hold(&mut self, group: &Group<'_>, install: &Install) -> Result<LeaseId, Error> {
        let lease = group.cluster.lease().ok_or(store::Error::NotOwner)?;
        while self.0 != Some(lease) {
            let expected = match group.cluster.record(KIND, &install.request_id.to_string()).await? {
                None => Expected::Absent,
                Some(record) => match Told::read(&record)?.install {
                    told if told.status.is_final() => return Err(ended_by_others()),
                    _ => Expected::At(record.revision),
                },
            };
            let told = Told { install: install.clone(), lease: Some(lease) };
            if let Changed::Done { .. } = told.write(group, expected).await? {
                self.0 = Some(lease);
            }
        }
        Ok(lease)
    }
}

fn ended_by_others() -> Error {
    let InstallFailure { message, .. } = InstallFailure::interrupted();
    Error::Rejected { code: ErrorCode::OrchestratorRestartInterrupted, message, details: Vec::new() }
}

/// Lets other services tell what became of an installation; what they tell, which may be what another one has found before. Should
/// that fail, this service alone tells of it until it can be done.
pub(crate) async fn share_end(shared: &Shared, install: Install) -> Install {
    let Some(group) = shared.group() else { return install };
    match told_end(&group, &install).await {
        Ok(told) => told,
        Err(error) => {
            warn!(install = %install.request_id, error = %chain(&error), "other services cannot tell of an installation");
            install
        }
    }
}

async fn told_end(group: &Group<'_>, install: &Install) -> Result<Install, Error> {
    let told = Told { install: install.clone(), lease: None };
    loop {
        let expected = match group.cluster.record(KIND, &install.request_id.to_string()).await? {
            None => Expected::Absent,
            Some(record) => match Told::read(&record) {
                Ok(before) if before.install.status.is_final() => return Ok(before.install),
                Ok(_) | Err(_) => Expected::At(record.revision),
            },
        };
        if let Changed::Done { .. } = told.write(group, expected).await? {
            forget_old(group).await?;
            return Ok(told.install);
        }
    }
}

/// Removes the oldest records beyond those that are remembered: their ids begin with the time.
async fn forget_old(group: &Group<'_>) -> Result<(), Error> {
    let records = group.cluster.records(KIND).await?.records;
    for record in records.iter().take(records.len().saturating_sub(KEPT)) {
        let (key, expected) = (record.key.clone(), Expected::Any);
        let change = RecordChange { kind: KIND, key, expected, value: None, files: Vec::new(), put_after: 0 };
        group.cluster.change_record(change).await?;
    }
    Ok(())
}

/// Installations that were not over when the records were last read.
#[derive(Default)]
pub(super) struct OpenInstalls {
    revision: Option<u64>,
    open: Vec<Record>,
}

impl Shared {
    /// Ends the records of installations whose service is gone, so that nobody waits for them. One cheap question if nothing is under way.
    pub(super) async fn end_installs(&self, known: &mut OpenInstalls) -> Result<(), Error> {
        let Some(group) = self.group() else { return Ok(()) };
        let revision = group.cluster.record_revisions(&[KIND]).await?.first().copied();
        if revision != known.revision {
            let list = group.cluster.records(KIND).await?;
            let is_open = |record: &Record| Told::read(record).is_ok_and(|told| !told.install.status.is_final());
            *known = OpenInstalls {
                revision: Some(list.revision),
                open: list.records.into_iter().filter(is_open).collect(),
            };
        }
        for record in &known.open {
            let Told { install, lease } = Told::read(record)?;
            if lease.is_some() && lease == group.cluster.lease() {
                // It is under way here, or others could not be told of its end.
                let (records, id) = (Records::new(&self.layout), install.request_id);
                let here = self.blocking.run("read the installation", move || records.read(id)).await??;
                if let Some(over) = here.filter(|here| here.status.is_final()) {
                    told_end(&group, &over).await?;
                }
            } else {
                self.what_became(&group, record.clone()).await?;
            }
        }
        Ok(())
    }

    /// An installation as all services tell of it. One that is not over, and whose service is gone, is ended.
    async fn what_became(&self, group: &Group<'_>, mut record: Record) -> Result<Install, Error> {
        loop {
            let Told { mut install, lease } = Told::read(&record)?;
            if install.status.is_final() {
                return Ok(install);
            }
            let is_over = match lease {
                Some(lease) => group.cluster.lease_is_over(lease).await?,
                None => false,
            };
            // Its service may have died after it was done and before it was told.
            match self.made_changes().await?.remove(&install.request_id) {
                Some(done) => install.succeed(done),
                None if is_over => install.fail(InstallFailure::interrupted()),
                None => {}
            }
            if !is_over {
                return Ok(install);
            }
            let told = Told { install, lease: None };
            match told.write(group, Expected::At(record.revision)).await? {
                Changed::Refused { found: Some(found) } => record = found,
                Changed::Done { .. } => {
                    let (install, status) = (told.install.request_id, told.install.status);
                    info!(%install, ?status, "ended the record of an installation whose service is gone");
                    return Ok(told.install);
                }
                Changed::Refused { found: None } => return Ok(told.install),
            }
        }
    }
}

impl Orchestrator {
    /// An installation as it is now.
    pub async fn install_of(&self, id: Uuid) -> Result<Option<Install>, Error> {
        let records = Records::new(&self.shared.layout);
        let here = self.shared.blocking.run("read the installation", move || records.read(id)).await??;
        let (None, Some(group)) = (&here, self.shared.group()) else { return Ok(here) };
        match group.cluster.record(KIND, &id.to_string()).await? {
            Some(record) => self.shared.what_became(&group, record).await.map(Some),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_of_the_release_before_reads_the_record_of_an_installation_and_writes_one_that_is_read() {
        let install = Install::queued(Uuid::from_u128(7));
        let told = Told { install: install.clone(), lease: Some(LeaseId(Uuid::from_u128(8))) };
        let text = serde_json::to_vec(&told).unwrap();
        assert_eq!(bounded::json::from_slice::<Install>(&text).unwrap(), install);
        let record = |value: Vec<u8>| Record { key: "7".into(), revision: 1, value: value.into() };
        assert_eq!(Told::read(&record(text)).unwrap(), told);
        let before = record(serde_json::to_vec(&install).unwrap());
        assert_eq!(Told::read(&before).unwrap(), Told { install, lease: None });
    }
}
