//! The services that this one shares skills with, and which changes of skills they have made.

use std::collections::HashMap;

use uuid::Uuid;

use crate::blobs::Blobs;
use crate::orchestrator::error::Error;
use crate::orchestrator::packages::agreed::SkillRecord;
use crate::orchestrator::shared::Shared;
use crate::registry::Done;
use crate::store::Cluster;

/// The kind of the records of skills.
pub(super) const KIND: &str = "skill";

/// What services share skills by.
pub(super) struct Group<'a> {
    pub(super) cluster: &'a dyn Cluster,
    pub(super) blobs: &'a dyn Blobs,
}

impl Shared {
    /// The services that this one shares skills with; none if it is alone.
    pub(super) fn group(&self) -> Option<Group<'_>> {
        let (member, blobs) = (self.member.as_ref()?, self.blobs.as_ref()?);
        Some(Group { cluster: &*member.cluster, blobs: &**blobs })
    }

    /// What became of changes of skills, by their ids, as far as services remember it.
    pub(crate) async fn made_changes(&self) -> Result<HashMap<Uuid, Done>, Error> {
        let Some(group) = self.group() else { return Ok(HashMap::new()) };
        let records = group.cluster.records(KIND).await?.records;
        let read = records.iter().filter_map(|record| SkillRecord::read(&record.key, &record.value).ok());
        Ok(read.flat_map(|record| record.changes).map(|made| (made.id, made.done)).collect())
    }
}
