//! The services that share the store with this one.

use std::sync::Arc;

use crate::orchestrator::access::{KnownKey, known_keys};
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::store::{Cluster, Node, NodeId};

impl Orchestrator {
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
