//! One connection: made, prepared for its work, and watched until it ends.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, Client, Error as ServerError};

use super::failure;
use super::place::Place;

/// Commits become durable and visible in this order. Whoever is stopped in the middle of a transaction holds the rows of its runs, and the
/// appends of others to them, for less time than the shortest lease: who takes these runs over finds the rows free. The server looks for lost
/// clients itself, too.
const SETTINGS: &str = "set client_min_messages = warning; set bytea_output = hex; set timezone = 'UTC'; \
     set idle_in_transaction_session_timeout = '3s'; set default_transaction_isolation = 'read committed'; \
     set jit = off; set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3; ";

/// Weaker levels lose acknowledged commits; a stronger one of the operator's stays.
const DURABLE: &str = "select set_config('synchronous_commit', 'on', false) \
     where current_setting('synchronous_commit') not in ('on', 'remote_apply')";

/// A connection and what tells of its end.
pub(super) struct Session {
    pub(super) client: Client,
    /// Resolves when the connection is over.
    pub(super) ended: oneshot::Receiver<()>,
    /// Closes the connection, whatever waits for an answer on it.
    pub(super) close: AbortHandle,
}

/// Within this time a connection is ready, or given up: a server or a proxy may take one and never say a word.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotConnected {
    #[error(transparent)]
    Refused(#[from] ServerError),
    #[error("the server took the connection and did not answer within {} s", READY_WITHIN.as_secs())]
    Silent,
}

impl NotConnected {
    /// For whoever wrote the URL.
    pub(super) fn reason(&self) -> String {
        match self {
            NotConnected::Refused(error) => failure::refused(error),
            NotConnected::Silent => self.to_string(),
        }
    }
}

/// Connects. Notifications are sent to `heard`, if it is given; those for which there is no room there are dropped.
pub(super) async fn connect(
    place: &Place,
    name: &str,
    heard: Option<mpsc::Sender<String>>,
) -> Result<Session, NotConnected> {
    match tokio::time::timeout(READY_WITHIN, connect_patiently(place, name, heard)).await {
        Ok(connected) => Ok(connected?),
        Err(_) => Err(NotConnected::Silent),
    }
}

async fn connect_patiently(
    place: &Place,
    name: &str,
    heard: Option<mpsc::Sender<String>>,
) -> Result<Session, ServerError> {
    let mut config = place.config.clone();
    config.application_name(name);
    let (client, mut connection) = config.connect(place.tls.clone()).await?;
    let (end, ended) = oneshot::channel();
    let task = tokio::spawn(async move {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    if let Some(heard) = &heard {
                        let _ = heard.try_send(notification.payload().to_owned());
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "a connection to the database ended");
                    break;
                }
                None => break,
            }
        }
        drop(connection);
        let _ = end.send(());
    });
    let close = task.abort_handle();
    client.batch_execute(&format!("{SETTINGS}set search_path = {}; {DURABLE}", place.schema)).await?;
    Ok(Session { client, ended, close })
}

/// Pauses between attempts to connect: short at first, then up to a second.
#[derive(Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    pub(super) async fn pause(&mut self) {
        let pause = Duration::from_millis(20) * 2_u32.pow(self.0.min(6));
        self.0 += 1;
        tokio::time::sleep(pause.min(Duration::from_secs(1))).await;
    }
}
