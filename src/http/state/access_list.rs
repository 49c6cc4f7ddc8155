//! Who may come in: the tokens, sessions and tickets of this service alone, or those of all services that share its store.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::ids::RunId;
use crate::domain::time::Timestamp;
use crate::files::Mark;
use crate::http::answer::problem::Problem;
use crate::http::state::credential::Credential;
use crate::http::state::shared_access::SharedAccess;
use crate::http::state::task::blocking;
use crate::http::state::tickets::{Ticket, Tickets};
use crate::http::state::wanted::Wanted;
use crate::orchestrator::{Error, Orchestrator};
use crate::store;
use crate::workspace::{Bound, Layout, NamedToken, Sessions, Shown, Tokens};

/// How long a request waits for a store that is away before it is refused.
const PATIENCE: Duration = Duration::from_secs(5);

/// The one place where it is chosen whose tokens, sessions and tickets count.
pub(crate) enum AccessList {
    /// Those of the data folder; tickets are in memory.
    OfFolder { tokens: Tokens, sessions: Arc<Sessions>, tickets: Tickets },
    /// Those of all services on the store.
    Shared(Box<SharedAccess>),
}

/// The list as it was at some moment; another one if tokens or sessions may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessMark {
    File(Option<Mark>),
    Revisions([Option<u64>; 2]),
}

impl AccessList {
    pub(crate) fn new(orchestrator: &Orchestrator) -> Self {
        match orchestrator.cluster() {
            Some((cluster, node)) => Self::Shared(Box::new(SharedAccess::new(cluster, node))),
            None => Self::of_folder(orchestrator.layout()),
        }
    }

    pub(crate) fn of_folder(layout: &Layout) -> Self {
        Self::OfFolder {
            tokens: Tokens::new(layout.clone()),
            sessions: Arc::new(Sessions::load(layout.clone())),
            tickets: Tickets::default(),
        }
    }

    /// Brings up to date what the other questions go by, where other services change it, too. Whoever is let in by any of it calls
    /// this first. A store that does not answer lets nobody in.
    pub(crate) async fn look(&self, wanted: Wanted) -> Result<(), Error> {
        let Self::Shared(shared) = self else { return Ok(()) };
        let unanswered = |_| store::Error::Unreachable { source: store::Error::cause("it did not answer in time") };
        Ok(tokio::time::timeout(PATIENCE, shared.look(wanted)).await.map_err(unanswered)??)
    }

    /// Completes when tokens or sessions may have changed on another service; it may be late or never do so.
    pub(crate) async fn perhaps_changed(&self) {
        match self {
            Self::OfFolder { .. } => std::future::pending().await,
            Self::Shared(shared) => shared.perhaps_changed().await,
        }
    }

    pub(crate) fn mark(&self) -> AccessMark {
        match self {
            Self::OfFolder { tokens, .. } => AccessMark::File(tokens.mark()),
            Self::Shared(shared) => AccessMark::Revisions(shared.revisions()),
        }
    }

    /// What this text is as a token at this moment.
    pub(crate) fn token(&self, text: &str, now: Timestamp) -> Shown {
        match self {
            Self::OfFolder { tokens, .. } => tokens.find(text, now),
            Self::Shared(shared) => match shared.token(&Tokens::hash_of(text), now) {
                Shown::Token(_) if !NamedToken::may_be(text) => Shown::Unknown,
                shown => shown,
            },
        }
    }

    /// The token whose text has this hash.
    pub(crate) fn token_with_hash(&self, hash: &str, now: Timestamp) -> Shown {
        match self {
            Self::OfFolder { tokens, .. } => tokens.with_hash(hash, now),
            Self::Shared(shared) => shared.token(hash, now),
        }
    }

    /// What the session with this text was opened with, if it is open at this moment.
    pub(crate) fn session(&self, text: &str, now: Timestamp) -> Option<Bound> {
        match self {
            Self::OfFolder { sessions, .. } => sessions.find(text, now),
            Self::Shared(shared) => {
                shared.session(&Sessions::hash_of(text), now).map(|session| session.bound().clone())
            }
        }
    }

    /// When the session whose text has this hash ends, if it is open at this moment.
    pub(crate) fn session_end(&self, hash: &str, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::OfFolder { sessions, .. } => sessions.end_of(hash, now),
            Self::Shared(shared) => shared.session(hash, now).map(|session| session.expires_at),
        }
    }

    /// Opens a session; the text is what the browser is to send. Durable before it is returned.
    pub(crate) async fn open_session(
        &self,
        bound: impl FnOnce(&str) -> Bound + Send + 'static,
        now: Timestamp,
        end: Timestamp,
    ) -> Result<String, Problem> {
        match self {
            Self::OfFolder { sessions, .. } => {
                let sessions = sessions.clone();
                blocking(move || sessions.open(bound, now, end).map_err(Error::from)).await
            }
            Self::Shared(shared) => Ok(shared.open_session(bound, now, end).await?),
        }
    }

    /// Ends the session with this text; whether there was one.
    pub(crate) async fn close_session(&self, text: &str, now: Timestamp) -> Result<bool, Problem> {
        match self {
            Self::OfFolder { sessions, .. } => {
                let (sessions, text) = (sessions.clone(), text.to_owned());
                blocking(move || sessions.close(&text, now).map_err(Error::from)).await
            }
            Self::Shared(shared) => Ok(shared.close_session(text).await?),
        }
    }

    /// Makes a ticket for the events of a run: its text, and when it is over.
    pub(crate) async fn make_ticket(
        &self,
        run: RunId,
        credential: Credential,
        now: Timestamp,
    ) -> Result<(String, Timestamp), Error> {
        match self {
            Self::OfFolder { tickets, .. } => tickets.make(run, credential, now).map_err(Error::io("make a ticket")),
            Self::Shared(shared) => shared.tickets().make(run, credential, now).await,
        }
    }

    /// The ticket with this text, if it is in force.
    pub(crate) fn ticket(&self, text: &str, now: Timestamp) -> Option<Ticket> {
        match self {
            Self::OfFolder { tickets, .. } => tickets.find(text, now),
            Self::Shared(shared) => shared.tickets().find(text, now),
        }
    }
}
