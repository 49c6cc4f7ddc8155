//! One connection: made, prepared for its work, and watched until it ends.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error as ServerError, SimpleQueryMessage};

use super::failure;
use super::guarded::{Guarded, Refused};
use super::place::Place;
use super::reach::{Server, Wire, servers};
use super::tls::Stream;
use crate::domain::causes::chain;

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
    /// Why the server was not listened to any more, if so.
    pub(super) refused: Refused,
}

/// Within this time a connection is ready, or given up: a server or a proxy may take one and never say a word.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotConnected {
    #[error(transparent)]
    Refused(#[from] ServerError),
    #[error("error connecting to server")]
    Unreached(#[from] io::Error),
    #[error("the server took the connection and did not answer within {} s", .0.as_secs())]
    Silent(Duration),
}

impl NotConnected {
    /// For whoever wrote the URL.
    pub(super) fn reason(&self) -> String {
        match self {
            NotConnected::Refused(error) => failure::refused(error),
            NotConnected::Unreached(_) | NotConnected::Silent(_) => chain(self),
        }
    }
}

/// Connects. Notifications are sent to `heard`, if it is given; those for which there is no room there are dropped.
pub(super) async fn connect(
    place: &Place,
    name: &str,
    heard: Option<mpsc::Sender<String>>,
) -> Result<Session, NotConnected> {
    let mut config = place.config.clone();
    config.application_name(name);
    let mut failed = NotConnected::Unreached(io::Error::other("the URL names no server"));
    let servers = servers(&config);
    // Each gets its part, so that one that says nothing leaves time for the next.
    let within = READY_WITHIN / u32::try_from(servers.len()).unwrap_or(u32::MAX).max(1);
    for server in servers {
        match timeout(within, connect_to(&server, place, &config, heard.clone())).await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = NotConnected::Silent(within),
        }
    }
    Err(failed)
}

async fn connect_to(
    server: &Server,
    place: &Place,
    config: &Config,
    heard: Option<mpsc::Sender<String>>,
) -> Result<Session, NotConnected> {
    let refused = Refused::default();
    let asks_for_tls = config.get_ssl_mode() != SslMode::Disable;
    let wire = Guarded::new(server.reach().await?, asks_for_tls, refused.clone());
    let connected = config.connect_raw(wire, place.tls.to(&server.name)?).await;
    let (client, connection) = connected.map_err(|error| told(error, &refused))?;
    let (ended, close) = drive(connection, heard);
    let session = Session { client, ended, close, refused };
    takes_writes(&session.client).await?;
    let settings = format!("{SETTINGS}set search_path = {}; {DURABLE}", place.schema);
    session.client.batch_execute(&settings).await?;
    Ok(session)
}

/// Whether the server takes writes: after a fail-over the one that does is the right one.
async fn takes_writes(client: &Client) -> Result<(), NotConnected> {
    let said = client.simple_query("show transaction_read_only").await?;
    let only_reads = said.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.try_get(0).ok().flatten() == Some("on"),
        _ => false,
    });
    if only_reads {
        return Err(NotConnected::Unreached(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "database does not allow writes",
        )));
    }
    Ok(())
}

/// Why there is no connection, without what the library says of bytes that it did not get.
fn told(error: ServerError, refused: &Refused) -> NotConnected {
    match refused.get() {
        Some(reason) => NotConnected::Unreached(io::Error::other(reason.clone())),
        None => NotConnected::Refused(error),
    }
}

/// Drives a connection until it ends, which is told.
fn drive(
    mut connection: Connection<Guarded<Wire>, Stream>,
    heard: Option<mpsc::Sender<String>>,
) -> (oneshot::Receiver<()>, AbortHandle) {
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
    (ended, task.abort_handle())
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
