//! The tokens, sessions and tickets of all services on a store, as this one knows them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::time::Timestamp;
use crate::http::state::shared_tickets::SharedTickets;
use crate::http::state::wanted::Wanted;
use crate::orchestrator::{Error, KnownRecords, close_session, known_sessions, known_tokens, open_session};
use crate::store::{self, Cluster, NodeId};
use crate::workspace::{Bound, NamedToken, Session, Shown};

pub(crate) struct SharedAccess {
    cluster: Arc<dyn Cluster>,
    /// None if no token was ever made.
    tokens: KnownRecords<Option<Vec<NamedToken>>>,
    /// By the hash of their texts.
    sessions: KnownRecords<HashMap<String, Session>>,
    tickets: SharedTickets,
}

impl SharedAccess {
    pub(crate) fn new(cluster: Arc<dyn Cluster>, node: NodeId) -> Self {
        Self {
            tokens: known_tokens(cluster.clone()),
            sessions: known_sessions(cluster.clone()),
            tickets: SharedTickets::new(cluster.clone(), node),
            cluster,
        }
    }

    /// What anybody was told to be so before this call is known afterwards.
    pub(crate) async fn look(&self, wanted: Wanted) -> Result<(), store::Error> {
        match wanted {
            Wanted::Nothing => Ok(()),
            Wanted::Tokens => self.tokens.look().await,
            Wanted::Sessions => tokio::try_join!(self.tokens.look(), self.sessions.look()).map(|_| ()),
            Wanted::Tickets => {
                tokio::try_join!(self.tokens.look(), self.sessions.look(), self.tickets.look()).map(|_| ())
            }
        }
    }

    pub(crate) async fn perhaps_changed(&self) {
        // It cannot end while the store is there.
        let _ = self.cluster.records_changed().changed().await;
    }

    pub(crate) fn revisions(&self) -> [Option<u64>; 2] {
        [self.tokens.revision(), self.sessions.revision()]
    }

    pub(crate) fn token(&self, hash: &str, now: Timestamp) -> Shown {
        self.tokens.now().as_ref().as_ref().map_or(Shown::NoneInUse, |tokens| Shown::among(tokens, hash, now))
    }

    pub(crate) fn session(&self, hash: &str, now: Timestamp) -> Option<Session> {
        self.sessions.now().get(hash).filter(|session| session.is_open(now)).cloned()
    }

    pub(crate) fn tickets(&self) -> &SharedTickets {
        &self.tickets
    }

    pub(crate) async fn open_session(
        &self,
        bound: impl FnOnce(&str) -> Bound,
        now: Timestamp,
        end: Timestamp,
    ) -> Result<String, Error> {
        open_session(&*self.cluster, &self.sessions, bound, now, end).await
    }

    /// The copy of this service is right at once, so that its own streams are told.
    pub(crate) async fn close_session(&self, text: &str) -> Result<bool, Error> {
        let closed = close_session(&*self.cluster, text).await?;
        self.sessions.look().await?;
        Ok(closed)
    }
}
