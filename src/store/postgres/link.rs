//! A connection for readers that is made anew whenever it is lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::{Client, Error as ServerError, Statement};

use super::failure;
use super::guarded::Refused;
use super::place::Place;
use super::session::{Backoff, Session, connect};
use crate::store::error::Cause;
use crate::store::{BoxFuture, Error};

/// How often a query is tried that failed on a connection that stands.
const TRIES: u32 = 4;

/// A client with the statements that were prepared on it.
pub(super) struct Reader {
    client: Client,
    close: AbortHandle,
    refused: Refused,
    statements: Mutex<HashMap<String, Statement>>,
}

impl Reader {
    /// The client and a statement for it, prepared at its first use.
    pub(super) async fn prepared(&self, sql: &str) -> Result<Statement, ServerError> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}

#[derive(Clone)]
enum State {
    Up(Arc<Reader>),
    /// It is being connected.
    Coming,
    /// For so long that nobody waits any more; attempts go on.
    Down(Cause),
}

/// A connection that may be lost and come back.
#[derive(Clone)]
pub(super) struct Link {
    state: watch::Receiver<State>,
    patience: Patience,
}

/// How long to wait for what.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// For a lost connection.
    pub(super) connection: Duration,
    /// For an answer, before another connection is tried.
    pub(super) answer: Duration,
}

impl Link {
    /// Begins to connect. Within a runtime.
    pub(super) fn start(place: Arc<Place>, name: String, patience: Patience) -> Link {
        let (state, link) = watch::channel(State::Coming);
        tokio::spawn(async move {
            let (mut backoff, mut since) = (Backoff::default(), Instant::now());
            while !state.is_closed() {
                match connect(&place, &name, None).await {
                    Ok(session) => {
                        let Session { client, close, ended, refused } = session;
                        let reader = Reader { client, close, refused, statements: Mutex::default() };
                        let _ = state.send(State::Up(Arc::new(reader)));
                        let _ = ended.await;
                        (backoff, since) = (Backoff::default(), Instant::now());
                        let _ = state.send(State::Coming);
                    }
                    Err(error) => {
                        if since.elapsed() > patience.connection {
                            let _ = state.send(State::Down(Arc::new(error)));
                        }
                        backoff.pause().await;
                    }
                }
            }
        });
        Link { state: link, patience }
    }

    /// What keeps queries from being answered.
    pub(super) fn trouble(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Up(_) => None,
            State::Coming => Some("the database is being connected again".to_owned()),
            State::Down(cause) => {
                Some(format!("the database cannot be reached: {}", crate::domain::causes::chain(&**cause)))
            }
        }
    }

    /// The connection, waited for if it is coming; not the one that was found to be lost.
    async fn up(&self, lost: Option<&Arc<Reader>>) -> Result<Arc<Reader>, Error> {
        let mut state = self.state.clone();
        let is_other = |reader: &Arc<Reader>| lost.is_none_or(|lost| !Arc::ptr_eq(lost, reader));
        let found = state.wait_for(|state| match state {
            State::Up(reader) => is_other(reader),
            State::Coming => false,
            State::Down(_) => true,
        });
        match found.await.map(|state| state.clone()) {
            Ok(State::Up(reader)) => Ok(reader),
            Ok(State::Down(source)) => Err(Error::Unreachable { source }),
            Ok(State::Coming) | Err(_) => Err(Error::Closed),
        }
    }

    /// Asks until there is an answer: a lost connection is waited for, but not for ever one that comes back each time and is lost again.
    pub(super) async fn ask<T>(
        &self,
        action: &'static str,
        query: impl Fn(Arc<Reader>) -> BoxFuture<'static, Result<T, ServerError>>,
    ) -> Result<T, Error> {
        let (began, mut losses, mut backoff) = (Instant::now(), 0, Backoff::default());
        let mut lost = None;
        let mut tries = 0;
        loop {
            let reader = self.up(lost.as_ref()).await?;
            let source = match timeout(self.patience.answer, query(reader.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Err(_) => {
                    tracing::warn!(action, "the database does not answer; connecting again");
                    reader.close.abort();
                    Error::cause("the database does not answer")
                }
                Ok(Err(error)) if failure::ends_connection(&error) => {
                    // What is asked on the same connection is lost with it, so each of them is asked again.
                    if let Some(reason) = reader.refused.get() {
                        tries += 1;
                        if tries == TRIES {
                            return Err(Error::Engine { action, source: Error::cause(reason.clone()) });
                        }
                    }
                    Arc::new(error)
                }
                Ok(Err(error)) => {
                    tries += 1;
                    if tries == TRIES || !failure::is_passing(&error) {
                        return Err(failure::broken(action, error));
                    }
                    continue;
                }
            };
            losses += 1;
            // Another connection is always tried.
            if losses > 1 && began.elapsed() > self.patience.connection {
                return Err(Error::Unreachable { source });
            }
            lost = Some(reader);
            backoff.pause().await;
        }
    }
}
