//! The services that share the store with this one.

use std::sync::Arc;

use serde::Serialize;

use crate::orchestrator::access::{KnownKey, known_keys};
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::store::{Cluster, Node, NodeId};

/// What a service is among those that share its store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct AmongSeveral {
    node_id: NodeId,
    name: String,
    /// Whether it starts runs at all.
    works: bool,
    /// Whether it has a lease at this moment; without one its engines are stopped.
    has_lease: bool,
    /// Whether it starts runs at this moment.
    starts_runs: bool,
}

impl Orchestrator {
    /// What this service is among others; `None` where there can be no other.
    pub(crate) fn among_several(&self) -> Option<AmongSeveral> {
        self.shared.member.as_ref().map(|member| AmongSeveral {
            node_id: member.info.node,
            name: member.info.name.clone(),
            works: member.info.works,
            has_lease: member.has_lease(),
            starts_runs: member.starts_runs(),
        })
    }

    /// All services on the store, this one among them; none where there can be no other.
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        match &self.shared.member {
            Some(member) => Ok(member.cluster.nodes().await?),
            None => Ok(Vec::new()),
        }
    }

    /// This service's own id among them.
    pub fn node(&self) -> Option<NodeId> {
        self.shared.member.as_ref().map(|member| member.info.node)
    }

    /// What this service shares with others, and its id among them; `None` where there can be no other.
    pub(crate) fn cluster(&self) -> Option<(Arc<dyn Cluster>, NodeId)> {
        self.shared.member.as_ref().map(|member| (member.cluster.clone(), member.info.node))
    }

    /// The keys that services on the store sign with, or have signed with; none where there can be no other service.
    pub(crate) async fn known_keys(&self) -> Result<Vec<KnownKey>, Error> {
        match &self.shared.member {
            Some(member) => known_keys(&*member.cluster).await,
            None => Ok(Vec::new()),
        }
    }

    /// Asks a service to start no more runs, or to start some again; whether there is such a service.
    pub async fn drain_node(&self, node: NodeId, draining: bool) -> Result<bool, Error> {
        match &self.shared.member {
            Some(member) => Ok(member.cluster.drain(node, draining).await?),
            None => Ok(false),
        }
    }
}
