//! The named tokens of all services on a store: one record that holds all of them, so that every change is a whole one.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::known::KnownRecords;
use crate::bounded::json;
use crate::domain::time::Timestamp;
use crate::store::{self, Changed, Cluster, Expected, Record, RecordChange, RecordList};
use crate::workspace::{NamedToken, Scope, TokenError, add_token, remove_token};

const KIND: &str = "tokens";
const KEY: &str = "all";

/// What the record holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenBook {
    /// Oldest first.
    pub(super) tokens: Vec<NamedToken>,
    /// Files of data folders whose tokens were moved here, by their SHA-256: none is moved twice.
    #[serde(default)]
    pub(super) moved: Vec<String>,
}

/// Why shared tokens could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the tokens of the store cannot be read or written")]
    Store(#[from] store::Error),
    #[error("the tokens in the store are damaged ({reason}): restore the database")]
    Damaged { reason: String },
    #[error("make a token")]
    Random(#[source] std::io::Error),
    #[error(
        "{names} in {file}, and the services on the store share another token of that name: revoke one of the two \
         (`skill-runner token revoke NAME` for the shared one, `skill-runner --store sled token revoke NAME` for the one in the file)"
    )]
    Differ { names: String, file: String },
}

fn parse(record: Option<&Record>) -> Result<TokenBook, AccessError> {
    let Some(record) = record else { return Ok(TokenBook::default()) };
    json::from_slice(&record.value).map_err(|error| AccessError::Damaged { reason: error.to_string() })
}

/// Changes the tokens, and looks again whenever somebody else was first. Nothing is written if nothing was changed.
pub(super) async fn change<T>(
    cluster: &dyn Cluster,
    work: impl Fn(&mut TokenBook) -> Result<T, AccessError>,
) -> Result<T, AccessError> {
    let mut found = cluster.record(KIND, KEY).await?;
    loop {
        let before = parse(found.as_ref())?;
        let mut book = before.clone();
        let done = work(&mut book)?;
        if book == before && found.is_some() {
            return Ok(done);
        }
        let text = serde_json::to_vec(&book).map_err(|error| AccessError::Damaged { reason: error.to_string() })?;
        let change = RecordChange {
            kind: KIND,
            key: KEY.to_owned(),
            expected: found.as_ref().map_or(Expected::Absent, |record| Expected::At(record.revision)),
            value: Some(Bytes::from(text)),
            files: Vec::new(),
            put_after: 0,
        };
        match cluster.change_record(change).await? {
            Changed::Done { .. } => return Ok(done),
            Changed::Refused { found: other } => found = other,
        }
    }
}

/// The tokens that all services share, oldest first.
pub(crate) async fn list_shared_tokens(cluster: &dyn Cluster) -> Result<Vec<NamedToken>, AccessError> {
    Ok(read_shared_tokens(cluster).await?.unwrap_or_default())
}

/// The same; `None` if none was ever made.
pub(crate) async fn read_shared_tokens(cluster: &dyn Cluster) -> Result<Option<Vec<NamedToken>>, AccessError> {
    let found = cluster.record(KIND, KEY).await?;
    parse(found.as_ref()).map(|book| found.is_some().then_some(book.tokens))
}

/// Makes a token that opens every service. Its text is returned, and cannot be had again.
pub(crate) async fn create_shared_token(
    cluster: &dyn Cluster,
    name: &str,
    scope: Scope,
    now: Timestamp,
    expires_at: Option<Timestamp>,
) -> Result<String, AccessError> {
    let text = NamedToken::new_text().map_err(AccessError::Random)?;
    let token = NamedToken::new(name, scope, &text, now, expires_at)?;
    change(cluster, |book| Ok(add_token(&mut book.tokens, token.clone())?)).await?;
    Ok(text)
}

/// From now on the token opens no service.
pub(crate) async fn revoke_shared_token(cluster: &dyn Cluster, name: &str) -> Result<(), AccessError> {
    change(cluster, |book| Ok(remove_token(&mut book.tokens, name)?)).await
}

/// The copy of a service; `None` if no token was ever made.
pub(crate) fn known_tokens(cluster: Arc<dyn Cluster>) -> KnownRecords<Option<Vec<NamedToken>>> {
    KnownRecords::new(cluster, KIND, read)
}

fn read(list: RecordList) -> Option<Vec<NamedToken>> {
    let record = list.records.iter().find(|record| record.key == KEY)?;
    Some(parse(Some(record)).map(|book| book.tokens).unwrap_or_else(|error| {
        warn!(%error, "the shared tokens cannot be read; none opens anything until they can");
        Vec::new()
    }))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::orchestrator::access::store_for_several;
    use crate::store::{MemoryNode, NodeId};
    use crate::workspace::{Shown, Tokens};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[tokio::test]
    async fn a_token_made_by_one_service_is_known_to_another_until_it_is_revoked_and_its_text_is_nowhere() {
        let store = store_for_several();
        let node = |n| Arc::new(MemoryNode::new(store.clone(), NodeId(Uuid::from_u128(n)))) as Arc<dyn Cluster>;
        let (one, other) = (node(1), node(2));
        let known = known_tokens(other.clone());
        known.look().await.unwrap();
        assert_eq!(*known.now(), None, "none was ever made");
        let text = create_shared_token(&*one, "ci", Scope::Run, at(1), Some(at(9))).await.unwrap();
        let again = create_shared_token(&*other, "ci", Scope::Run, at(1), None).await;
        assert!(matches!(again, Err(AccessError::Token(TokenError::Exists { .. }))));
        known.look().await.unwrap();
        let tokens = list_shared_tokens(&*one).await.unwrap();
        assert_eq!(*known.now(), Some(tokens.clone()));
        let shown = |tokens: &[NamedToken], second| Shown::among(tokens, &Tokens::hash_of(&text), at(second));
        assert_eq!(shown(&tokens, 8), Shown::Token(tokens[0].clone()));
        assert_eq!(shown(&tokens, 9), Shown::Unknown, "over");
        let stored = one.record(KIND, KEY).await.unwrap().unwrap().value;
        let stored = String::from_utf8(stored.to_vec()).unwrap();
        assert!(!stored.contains(&text) && !stored.contains(&text[3..]), "{stored}");

        revoke_shared_token(&*one, "ci").await.unwrap();
        known.look().await.unwrap();
        assert_eq!(*known.now(), Some(Vec::new()), "tokens are in use, though there is none now");
        let missing = revoke_shared_token(&*other, "ci").await;
        assert!(matches!(missing, Err(AccessError::Token(TokenError::Missing { .. }))));
    }

    #[tokio::test]
    async fn changes_of_several_at_once_are_all_made() {
        let store = store_for_several();
        let names: Vec<String> = (0..20).map(|n| format!("t{n:02}")).collect();
        let made = names.iter().map(|name| {
            let node = MemoryNode::new(store.clone(), NodeId(Uuid::now_v7()));
            async move { create_shared_token(&node, name, Scope::Read, at(1), None).await.unwrap() }
        });
        futures_util::future::join_all(made).await;
        let node = MemoryNode::new(store, NodeId(Uuid::now_v7()));
        let mut listed: Vec<String> =
            list_shared_tokens(&node).await.unwrap().into_iter().map(|token| token.name).collect();
        listed.sort();
        assert_eq!(listed, names);
    }

    #[tokio::test]
    async fn a_damaged_record_opens_nothing_and_is_not_replaced() {
        let node: Arc<dyn Cluster> = Arc::new(MemoryNode::new(store_for_several(), NodeId(Uuid::now_v7())));
        let (key, value) = (KEY.to_owned(), Some(Bytes::from_static(b"[{]")));
        let damage = RecordChange {
            kind: KIND,
            key,
            expected: Expected::Any,
            value: value.clone(),
            files: Vec::new(),
            put_after: 0,
        };
        node.change_record(damage).await.unwrap();
        let known = known_tokens(node.clone());
        known.look().await.unwrap();
        assert_eq!(*known.now(), Some(Vec::new()));
        let refused = create_shared_token(&*node, "a", Scope::Read, at(1), None).await;
        assert!(matches!(refused, Err(AccessError::Damaged { .. })));
        assert_eq!(node.record(KIND, KEY).await.unwrap().map(|record| record.value), value);
    }
}
