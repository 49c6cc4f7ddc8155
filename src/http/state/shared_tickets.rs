//! Tickets that open the event stream of a run on every service: each service writes its own into one record, and reads those of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::bounded::json;
use crate::domain::ids::RunId;
use crate::domain::time::Timestamp;
use crate::http::state::credential::Credential;
use crate::http::state::tickets::{Ticket, new_ticket, text_hash};
use crate::orchestrator::{Error, KnownRecords};
use crate::store::{self, Cluster, Expected, NodeId, RecordChange, RecordList};

const KIND: &str = "stream-tickets";
/// Most tickets of one service, which fit into a record, and most of one client; the one that is over first goes when there are more.
const MOST: usize = 2000;
const MOST_OF_ONE: usize = MOST / 4;
/// What a service left that is gone is removed after this time.
const LEFT_SECONDS: u64 = 3600;

pub(crate) struct SharedTickets {
    cluster: Arc<dyn Cluster>,
    /// Names the record of this service.
    key: String,
    known: KnownRecords<OfAll>,
    own: Mutex<Own>,
    /// How many of the tickets that were made are in the record, or were over before.
    written: tokio::sync::Mutex<u64>,
}

/// A ticket in the record of a service.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    /// Of its text.
    sha256: String,
    #[serde(flatten)]
    ticket: Ticket,
}

#[derive(Default)]
struct Own {
    tickets: Vec<Stored>,
    made: u64,
}

/// The records of all services.
#[derive(Default)]
struct OfAll {
    /// By the hash of their texts.
    tickets: HashMap<String, Ticket>,
    /// Key and revision of each record, and when its last ticket is over.
    ends: Vec<(String, u64, Timestamp)>,
}

impl SharedTickets {
    pub(crate) fn new(cluster: Arc<dyn Cluster>, node: NodeId) -> Self {
        let known = KnownRecords::new(cluster.clone(), KIND, OfAll::read);
        Self { cluster, key: node.0.to_string(), known, own: Mutex::default(), written: tokio::sync::Mutex::new(0) }
    }

    pub(crate) async fn look(&self) -> Result<(), store::Error> {
        self.known.look().await
    }

    /// Makes a ticket: its text, and when it is over. Every service knows it then. Those that are made at the same time are written
    /// together.
    pub(crate) async fn make(
        &self,
        run: RunId,
        credential: Credential,
        now: Timestamp,
    ) -> Result<(String, Timestamp), Error> {
        let (text, ticket) = new_ticket(run, credential, now).map_err(Error::io("make a ticket"))?;
        let end = ticket.expires_at;
        let mine = self.own().add(Stored { sha256: text_hash(&text), ticket }, now);
        let mut written = self.written.lock().await;
        if *written < mine {
            let (value, made) = {
                let own = self.own();
                (serde_json::to_vec(&own.tickets), own.made)
            };
            let value = value.map_err(|error| Error::io("write a ticket")(error.into()))?;
            self.cluster.change_record(change(self.key.clone(), Expected::Any, Some(Bytes::from(value)))).await?;
            *written = made;
            self.remove_left(now).await?;
        }
        Ok((text, end))
    }

    /// Removes what services left that are gone, as far as this one knows of it.
    async fn remove_left(&self, now: Timestamp) -> Result<(), Error> {
        let left = |end: &Timestamp| end.plus_seconds(LEFT_SECONDS) < now;
        for (key, revision, end) in &self.known.now().ends {
            if *key != self.key && left(end) {
                self.cluster.change_record(change(key.clone(), Expected::At(*revision), None)).await?;
            }
        }
        Ok(())
    }

    /// The ticket with this text, if it is in force.
    pub(crate) fn find(&self, text: &str, now: Timestamp) -> Option<Ticket> {
        self.known.now().tickets.get(&text_hash(text)).filter(|ticket| now < ticket.expires_at).cloned()
    }

    fn own(&self) -> std::sync::MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Own {
    /// How many were made with this one.
    fn add(&mut self, stored: Stored, now: Timestamp) -> u64 {
        self.tickets.retain(|stored| now < stored.ticket.expires_at);
        // They are in the order in which they end.
        let is_own = |other: &Stored| other.ticket.credential.is_of_same(&stored.ticket.credential);
        if self.tickets.iter().filter(|other| is_own(other)).count() >= MOST_OF_ONE {
            let first = self.tickets.iter().position(is_own);
            first.map(|first| self.tickets.remove(first));
        } else if self.tickets.len() >= MOST {
            self.tickets.remove(0);
        }
        self.tickets.push(stored);
        self.made += 1;
        self.made
    }
}

impl OfAll {
    fn read(list: RecordList) -> Self {
        let mut all = Self::default();
        for record in list.records {
            let stored: Vec<Stored> = json::from_slice(&record.value).unwrap_or_else(|error| {
                warn!(%error, "tickets of a service cannot be read; they open nothing");
                Vec::new()
            });
            let end = stored.iter().map(|stored| stored.ticket.expires_at).max();
            all.ends.push((record.key, record.revision, end.unwrap_or(Timestamp::from_micros(0))));
            all.tickets.extend(stored.into_iter().map(|stored| (stored.sha256, stored.ticket)));
        }
        all
    }
}

fn change(key: String, expected: Expected, value: Option<Bytes>) -> RecordChange {
    RecordChange { kind: KIND, key, expected, value, files: Vec::new(), put_after: 0 }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::store::{MemoryNode, MemoryStore};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[tokio::test]
    async fn a_ticket_of_one_service_opens_another_for_a_minute_and_what_gone_services_left_goes() {
        let store = MemoryStore::for_several(Default::default(), Arc::new(|| 0));
        let service = |n| {
            let node = NodeId(Uuid::from_u128(n));
            let cluster: Arc<dyn Cluster> = Arc::new(MemoryNode::new(store.clone(), node));
            (SharedTickets::new(cluster.clone(), node), cluster)
        };
        let ((one, _), (other, cluster)) = (service(1), service(2));
        let run = RunId::from_bytes([1; 16]);
        let credential = Credential { token: Some("ab".into()), session: None };
        let (text, end) = one.make(run, credential.clone(), at(0)).await.unwrap();
        let (second, _) = one.make(run, Credential::default(), at(1)).await.unwrap();
        other.look().await.unwrap();
        assert_eq!(other.find(&text, at(59)), Some(Ticket { run, credential, expires_at: end }));
        assert_eq!((other.find(&text, at(60)), end), (None, at(60)));
        assert!(other.find(&second, at(60)).is_some() && other.find("st_x", at(1)).is_none());
        let stored = cluster.records(KIND).await.unwrap();
        assert!(!String::from_utf8_lossy(&stored.records[0].value).contains(&text), "{stored:?}");

        let (third, _) = other.make(run, Credential::default(), at(5000)).await.unwrap();
        let keys: Vec<String> =
            cluster.records(KIND).await.unwrap().records.into_iter().map(|record| record.key).collect();
        assert_eq!(keys, [Uuid::from_u128(2).to_string()]);
        one.look().await.unwrap();
        assert!(one.find(&third, at(5001)).is_some() && one.find(&second, at(2)).is_none());
    }

    #[test]
    fn the_most_tickets_fit_into_a_record() {
        let mut own = Own::default();
        let mut add = |token: usize| {
            let credential = Credential { token: Some(format!("{token:064}")), session: Some("b".repeat(64)) };
            let (text, ticket) = new_ticket(RunId::from_bytes([1; 16]), credential, at(1)).unwrap();
            own.add(Stored { sha256: text_hash(&text), ticket }, at(1));
            own.tickets.len()
        };
        for _ in 0..MOST_OF_ONE {
            add(0);
        }
        assert_eq!(add(0), MOST_OF_ONE, "a client has no more than its share");
        for other in MOST_OF_ONE..MOST + 4 {
            add(other / MOST_OF_ONE);
        }
        assert_eq!((own.tickets.len(), own.made), (MOST, 2005));
        assert!(serde_json::to_vec(&own.tickets).unwrap().len() < store::MAX_RECORD_BYTES);
    }
}
