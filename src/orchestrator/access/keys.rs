//! The public keys of all services on a store. Each signs with a private key of its own, which never leaves its data folder.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::bounded::json;
use crate::domain::time::Timestamp;
use crate::fcmp::PublicKey;
use crate::orchestrator::error::Error;
use crate::store::{Cluster, Expected, NodeId, NodeInfo, RecordChange};

const KIND: &str = "signing-keys";

/// A key that a service signs runs with, or has signed some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownKey {
    pub(crate) key: PublicKey,
    pub(crate) node: NodeId,
    /// What the service was called when the key was made known.
    pub(crate) name: String,
    pub(crate) since: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    node: NodeId,
    name: String,
    since: Timestamp,
}

/// Makes a service's public key known to all. It stays known when the service is gone: its runs stay.
pub(crate) async fn make_known(
    cluster: &dyn Cluster,
    key: PublicKey,
    info: &NodeInfo,
    now: Timestamp,
) -> Result<(), Error> {
    let (key, stored) = (key.to_string(), Stored { node: info.node, name: info.name.clone(), since: now });
    if cluster.record(KIND, &key).await?.is_some() {
        return Ok(());
    }
    let value = serde_json::to_vec(&stored).map_err(|error| Error::io("write a public key")(error.into()))?;
    let change = RecordChange {
        kind: KIND,
        key,
        expected: Expected::Absent,
        value: Some(Bytes::from(value)),
        files: Vec::new(),
        put_after: 0,
    };
    // Whoever was first said the same.
    cluster.change_record(change).await?;
    Ok(())
}

/// The keys of all services that ever were on the store.
pub(crate) async fn known_keys(cluster: &dyn Cluster) -> Result<Vec<KnownKey>, Error> {
    let list = cluster.records(KIND).await?;
    let known = list.records.iter().filter_map(|record| {
        let stored = json::from_slice::<Stored>(&record.value)
            .inspect_err(|error| warn!(key = record.key, %error, "a record of a public key cannot be read"))
            .ok()?;
        let Stored { node, name, since } = stored;
        Some(KnownKey { key: PublicKey::parse(&record.key)?, node, name, since })
    });
    Ok(known.collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::fcmp::Signer;
    use crate::orchestrator::access::store_for_several;
    use crate::store::MemoryNode;

    #[tokio::test]
    async fn every_key_is_known_once_and_with_the_service_that_first_had_it() {
        let node = NodeId(Uuid::from_u128(7));
        let cluster = MemoryNode::new(store_for_several(), node);
        let info = |name: &str| NodeInfo {
            node,
            name: name.to_owned(),
            version: "1".into(),
            address: None,
            works: true,
            lease: Duration::from_secs(5),
        };
        let [one, other] = [1, 2].map(|seed| Signer::from_seed(&[seed; 32]).public_key());
        let at = Timestamp::from_micros;
        make_known(&cluster, one, &info("a"), at(1)).await.unwrap();
        make_known(&cluster, one, &info("b"), at(2)).await.unwrap();
        make_known(&cluster, other, &info("b"), at(3)).await.unwrap();
        let mut wanted = vec![
            KnownKey { key: one, node, name: "a".into(), since: at(1) },
            KnownKey { key: other, node, name: "b".into(), since: at(3) },
        ];
        wanted.sort_by_key(|known| known.key.to_string());
        assert_eq!(known_keys(&cluster).await.unwrap(), wanted);
    }
}
