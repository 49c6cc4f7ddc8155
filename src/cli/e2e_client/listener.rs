//! Who may connect. To the service every request is one of the user who runs the example client: where the service lets that user in
//! without a token, other users of the machine must not come in this way.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::serve::Listener;
use tokio::net::{TcpListener, TcpStream};
use tracing::warn;

use crate::http::{Owners, Peer};

pub(super) struct OwnListener {
    listener: TcpListener,
    /// Tells users apart; none where a key does.
    owners: Option<Arc<Owners>>,
}

impl OwnListener {
    pub(super) fn new(listener: TcpListener, has_key: bool) -> Self {
        Self { listener, owners: (!has_key).then(Owners::new) }
    }
}

impl Listener for OwnListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            let Some(owners) = &self.owners else { return (stream, address) };
            match owners.peer_of(&stream).await {
                Peer::Own { .. } => return (stream, address),
                Peer::Stranger { uid } => warn!(uid, "a connection of another user is closed: set token"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
