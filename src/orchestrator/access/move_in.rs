//! Moves the named tokens of a data folder to those that all services share, once.

use sha2::{Digest, Sha256};
use tracing::info;

use super::tokens::{AccessError, change};
use crate::domain::time::Timestamp;
use crate::files;
use crate::store::Cluster;
use crate::workspace::{Layout, NamedToken, TokenError, read_tokens};

/// Files that are remembered as moved; more than anybody has data folders.
const REMEMBERED: usize = 1000;

/// What became of the tokens of a data folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// There were none.
    Nothing,
    /// These open every service now.
    Tokens(usize),
    /// They were moved before; what was revoked since stays revoked.
    Before,
}

/// Moves the tokens. The file is then put aside under another name, so that a service that is alone again does not go by it.
pub(crate) async fn move_in_tokens(
    cluster: &dyn Cluster,
    layout: &Layout,
    now: Timestamp,
) -> Result<Moved, AccessError> {
    let path = layout.tokens();
    let Some(text) = files::read_optional(&path).map_err(TokenError::File)? else { return Ok(Moved::Nothing) };
    let file = hex::encode(Sha256::digest(&text));
    let own: Vec<NamedToken> =
        read_tokens(layout).map_err(TokenError::File)?.into_iter().filter(|token| !token.is_expired(now)).collect();
    let moved = change(cluster, |book| {
        if book.moved.contains(&file) {
            return Ok(Moved::Before);
        }
        let differ = |token: &&NamedToken| {
            book.tokens.iter().any(|known| known.name == token.name && known.hash() != token.hash())
        };
        let names: Vec<String> = own.iter().filter(differ).map(|token| format!("{:?}", token.name)).collect();
        if !names.is_empty() {
            let file = path.display().to_string();
            return Err(AccessError::Differ { names: names.join(", "), file });
        }
        let known = |token: &&NamedToken| !book.tokens.iter().any(|known| known.hash() == token.hash());
        let new: Vec<NamedToken> = own.iter().filter(known).cloned().collect();
        let count = new.len();
        book.tokens.extend(new);
        book.moved.push(file.clone());
        let too_many = book.moved.len().saturating_sub(REMEMBERED);
        book.moved.drain(..too_many);
        Ok(Moved::Tokens(count))
    })
    .await?;
    let aside = layout.moved_tokens();
    files::rename(&path, &aside).and_then(|()| files::sync(layout.data())).map_err(TokenError::File)?;
    info!(moved = ?moved, aside = %aside.display(), "the tokens of the data folder are those of all services now");
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use uuid::Uuid;

    use super::*;
    use crate::orchestrator::access::store_for_several;
    use crate::orchestrator::access::tokens::{create_shared_token, list_shared_tokens, revoke_shared_token};
    use crate::store::{MemoryNode, NodeId};
    use crate::workspace::{Scope, create_token};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    async fn names(node: &MemoryNode) -> Vec<String> {
        list_shared_tokens(node).await.unwrap().into_iter().map(|token| token.name).collect()
    }

    #[tokio::test]
    async fn tokens_of_a_folder_are_moved_once_and_what_was_revoked_does_not_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let node = MemoryNode::new(store_for_several(), NodeId(Uuid::now_v7()));
        assert_eq!(move_in_tokens(&node, &layout, at(5)).await.unwrap(), Moved::Nothing);
        for (name, end) in [("ci", None), ("over", Some(at(2))), ("ops", Some(at(9)))] {
            create_token(&layout, name, Scope::Run, at(1), end).unwrap();
        }
        let file = fs::read(layout.tokens()).unwrap();
        assert_eq!(move_in_tokens(&node, &layout, at(5)).await.unwrap(), Moved::Tokens(2));
        assert_eq!(names(&node).await, ["ci", "ops"]);
        assert!(!layout.tokens().exists() && layout.moved_tokens().exists());
        revoke_shared_token(&node, "ci").await.unwrap();
        // As if the service had been killed before the file was put aside.
        fs::write(layout.tokens(), &file).unwrap();
        assert_eq!(move_in_tokens(&node, &layout, at(5)).await.unwrap(), Moved::Before);
        assert_eq!(names(&node).await, ["ops"]);
        assert!(!layout.tokens().exists());
    }

    #[tokio::test]
    async fn a_token_whose_name_is_that_of_another_is_refused_and_nothing_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let node = MemoryNode::new(store_for_several(), NodeId(Uuid::now_v7()));
        create_shared_token(&node, "ci", Scope::Run, at(1), None).await.unwrap();
        create_token(&layout, "ci", Scope::Run, at(1), None).unwrap();
        create_token(&layout, "new", Scope::Run, at(1), None).unwrap();
        let refused = move_in_tokens(&node, &layout, at(5)).await.unwrap_err();
        assert!(refused.to_string().contains("\"ci\" in"), "{refused}");
        assert_eq!(names(&node).await, ["ci"]);
        assert!(layout.tokens().exists());
    }
}
