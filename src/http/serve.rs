//! Serves the API on a socket until it is stopped and the last answers are sent.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::files;
use crate::http::router::routes;
use crate::http::server::connection;
use crate::http::server::peer::{Owners, PeerAt};
use crate::http::server::slots::{Entered, Slots, connection_limit};
use crate::http::state::app::{App, Changes};
use crate::orchestrator::Orchestrator;
use crate::settings::Settings;

/// How long answers may take after the stop.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// How long to wait before the next connection if the system has no room for one.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);
/// Most connections that are being told at the same time that there is no room; others are closed without a word.
const TURNED_AWAY_MAX: usize = 32;

/// Serves the API until `stop` completes; open event streams end then.
pub async fn serve(
    listener: TcpListener,
    orchestrator: Orchestrator,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_app(listener, orchestrator, Changes::Accepted, stop).await
}

/// Serves the API read-only: a request that would change something is refused.
pub(crate) async fn serve_read_only(
    listener: TcpListener,
    orchestrator: Orchestrator,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_app(listener, orchestrator, Changes::Refused, stop).await
}

async fn serve_app(
    listener: TcpListener,
    orchestrator: Orchestrator,
    changes: Changes,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let most = most_connections(orchestrator.settings());
    let app = App::new(orchestrator, changes, most);
    let tasks = TaskTracker::new();
    Acceptor::new(app.clone(), tasks.clone(), most).accept_until(listener, stop).await;
    app.close();
    tasks.close();
    // A client that does not read its answer must not delay the end.
    let _ = tokio::time::timeout(LAST_ANSWERS, tasks.wait()).await;
    Ok(())
}

/// How many connections there may be: as configured, or as the limit of open files allows.
fn most_connections(settings: &Settings) -> usize {
    let wanted = settings.http.connections.most;
    let open_files = files::open_files();
    let most = connection_limit(wanted, open_files, settings.runs.max_running_jobs);
    if most < wanted {
        info!(max_connections = most, open_files, "the limit of open files allows fewer connections than configured");
    }
    most
}

struct Acceptor {
    app: App,
    router: Router,
    slots: Arc<Slots>,
    owners: Arc<Owners>,
    turned_away: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Acceptor {
    fn new(app: App, tasks: TaskTracker, most: usize) -> Self {
        let settings = app.orchestrator().settings();
        let slots = Slots::new(most, settings.http.connections.most_per_address);
        let turned_away = Arc::new(Semaphore::new((most / 8).clamp(1, TURNED_AWAY_MAX)));
        let owners = Owners::new();
        Self { router: routes(app.clone()), app, slots, owners, turned_away, tasks }
    }

    async fn accept_until(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut had_room = true;
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    had_room = true;
                    self.take(stream).await;
                }
                Err(error) if is_of_client(&error) => debug!(%error, "a connection ended before it was accepted"),
                Err(error) => {
                    // No descriptor or no memory. Connections that wait for nothing make room, and the next may succeed.
                    if had_room {
                        warn!(%error, "connections cannot be accepted at present");
                    }
                    had_room = false;
                    match self.slots.evict_one() {
                        Some(gone) => gone_soon(gone).await,
                        None => tokio::time::sleep(NO_ROOM_PAUSE).await,
                    }
                }
            }
        }
    }

    async fn take(&self, stream: TcpStream) {
        // A connection that has ended already has no address.
        let Ok(peer) = stream.peer_addr() else { return };
        // Events are small and must not be delayed.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "TCP_NODELAY cannot be set; events may be delayed");
        }
        let Some(Entered { slot, evicted }) = self.slots.enter(peer.ip()) else {
            if let Ok(permit) = self.turned_away.clone().try_acquire_owned() {
                self.tasks.spawn(async move {
                    connection::turn_away(stream).await;
                    drop(permit);
                });
            }
            return;
        };
        let (app, router) = (self.app.clone(), self.router.clone());
        let owners = self.owners.clone();
        self.tasks.spawn(async move {
            let limits = &app.orchestrator().settings().http.connections;
            let peer = PeerAt { peer: owners.peer_of(&stream).await, address: peer.ip() };
            connection::serve(stream, peer, slot, router, limits, app.closed()).await;
        });
        if let Some(gone) = evicted {
            gone_soon(gone).await;
        }
    }
}

/// Waits until a connection that has to go is gone, so that there are never many more than there may be.
async fn gone_soon(gone: CancellationToken) {
    let _ = tokio::time::timeout(NO_ROOM_PAUSE, gone.cancelled()).await;
}

/// Whether the error is about the one connection that was to be accepted.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}
