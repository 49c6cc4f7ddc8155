//! The sessions of browsers with all services on a store: a record for each, named by the hash of what the browser sends.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tracing::warn;

use super::known::KnownRecords;
use crate::bounded::json;
use crate::domain::time::Timestamp;
use crate::orchestrator::error::Error;
use crate::store::{Changed, Cluster, Expected, RecordChange, RecordList};
use crate::workspace::{Bound, Session, Sessions};

const KIND: &str = "sessions";

/// Opens a session with every service; the text is what the browser is to send. It is durable when it is returned. Sessions that
/// are over go, and of too many the oldest.
pub(crate) async fn open_session(
    cluster: &dyn Cluster,
    known: &KnownRecords<HashMap<String, Session>>,
    bound: impl FnOnce(&str) -> Bound,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<String, Error> {
    let (session, text) = Session::new(bound, now, expires_at).map_err(Error::io("make a session"))?;
    known.look().await?;
    for hash in superfluous(&known.now(), &session, now) {
        cluster.change_record(removal(hash)).await?;
    }
    let value = serde_json::to_vec(&session).map_err(|error| Error::io("write a session")(error.into()))?;
    let change = RecordChange {
        kind: KIND,
        key: session.hash().to_owned(),
        expected: Expected::Any,
        value: Some(Bytes::from(value)),
        files: Vec::new(),
        put_after: 0,
    };
    cluster.change_record(change).await?;
    Ok(text)
}

/// Sessions that are over, and those that make room for a new one.
fn superfluous(known: &HashMap<String, Session>, new: &Session, now: Timestamp) -> Vec<String> {
    let (open, over): (Vec<&Session>, Vec<&Session>) = known.values().partition(|session| session.is_open(now));
    let over = over.iter().map(|session| session.hash().to_owned());
    over.chain(new.superfluous(open.into_iter())).collect()
}

/// Ends the session with this text on every service; whether there was one.
pub(crate) async fn close_session(cluster: &dyn Cluster, text: &str) -> Result<bool, Error> {
    let hash = Sessions::hash_of(text);
    if cluster.record(KIND, &hash).await?.is_none() {
        return Ok(false);
    }
    Ok(matches!(cluster.change_record(removal(hash)).await?, Changed::Done { .. }))
}

fn removal(hash: String) -> RecordChange {
    RecordChange { kind: KIND, key: hash, expected: Expected::Any, value: None, files: Vec::new(), put_after: 0 }
}

/// The copy of a service, by the hash of a session's text.
pub(crate) fn known_sessions(cluster: Arc<dyn Cluster>) -> KnownRecords<HashMap<String, Session>> {
    KnownRecords::new(cluster, KIND, read)
}

fn read(list: RecordList) -> HashMap<String, Session> {
    let session = |value: &[u8]| match json::from_slice::<Session>(value) {
        Ok(session) => Some((session.hash().to_owned(), session)),
        Err(error) => {
            warn!(%error, "a session cannot be read; its browser has to log in again");
            None
        }
    };
    list.records.iter().filter_map(|record| session(&record.value)).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::orchestrator::access::store_for_several;
    use crate::store::{MemoryNode, NodeId};
    use crate::workspace::SESSIONS_MOST;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn of_token(_: &str) -> Bound {
        Bound::Token { sha256: "0".repeat(64) }
    }

    #[tokio::test]
    async fn a_session_is_one_of_every_service_until_it_is_closed_and_what_is_over_goes() {
        let store = store_for_several();
        let node = |n| Arc::new(MemoryNode::new(store.clone(), NodeId(Uuid::from_u128(n)))) as Arc<dyn Cluster>;
        let (one, other) = (node(1), node(2));
        let (of_one, of_other) = (known_sessions(one.clone()), known_sessions(other.clone()));
        let short = open_session(&*one, &of_one, of_token, at(1), at(3)).await.unwrap();
        let text = open_session(&*other, &of_other, of_token, at(2), at(9)).await.unwrap();
        of_one.look().await.unwrap();
        let found = of_one.now();
        assert_eq!(found.len(), 2);
        assert_eq!(found[&Sessions::hash_of(&text)].bound(), &of_token(""));
        assert!(found[&Sessions::hash_of(&text)].is_open(at(8)) && !found[&Sessions::hash_of(&text)].is_open(at(9)));
        let last = open_session(&*one, &of_one, of_token, at(4), at(9)).await.unwrap();
        of_other.look().await.unwrap();
        let mut left: Vec<String> = of_other.now().keys().cloned().collect();
        let mut wanted = vec![Sessions::hash_of(&text), Sessions::hash_of(&last)];
        left.sort();
        wanted.sort();
        assert_eq!(left, wanted, "{short} is over");
        assert!(close_session(&*one, &text).await.unwrap() && !close_session(&*other, &text).await.unwrap());
        of_other.look().await.unwrap();
        assert_eq!(of_other.now().len(), 1);
    }

    #[test]
    fn the_oldest_make_room_where_there_are_too_many() {
        let of = |number: usize| Bound::Token { sha256: format!("{number:064}") };
        let session = |number: usize| {
            let second = at(i64::try_from(number).unwrap());
            let (session, _) = Session::new(|_| of(number), second, at(90_000)).unwrap();
            (session.hash().to_owned(), session)
        };
        let known: HashMap<String, Session> = (0..SESSIONS_MOST).map(session).collect();
        let oldest = known.values().min_by_key(|session| session.created_at).unwrap().hash().to_owned();
        let (_, new) = session(SESSIONS_MOST);
        assert_eq!(superfluous(&known, &new, at(50_000)), [oldest]);
    }
}
