//! Which user of this machine opened a connection.
//!
//! The kernel knows the owner of every socket. Of a connection on this machine the other end is a socket, too, and is found
//! by its two addresses: through `sock_diag`, which looks up one socket, or in `/proc/net/tcp`, which lists them all.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream as BlockingStream};
use std::sync::Arc;

use rustix::process::geteuid;
use tokio::net::TcpStream;
use tracing::warn;

use crate::http::server::sock_diag::{SockDiag, canonical, owner};
use crate::http::state::failed_logins::Client;
use crate::supervisor::{InternetSocket, tcp_sockets};

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The service's own user, or root.
    Own { uid: u32 },
    /// Another user, another machine, or somebody who cannot be told.
    Stranger { uid: Option<u32> },
}

/// A connection's other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerAt {
    pub(crate) peer: Peer,
    pub(crate) address: IpAddr,
}

impl PeerAt {
    /// As whom wrong attempts to log in are counted.
    pub(crate) fn client(self) -> Client {
        let uid = match self.peer {
            Peer::Own { uid } => Some(uid),
            Peer::Stranger { uid } => uid,
        };
        Client::new(self.address, uid)
    }
}

/// Finds out who opened a connection.
pub(crate) struct Owners {
    way: Way,
    own: Option<u32>,
}

#[derive(Debug)]
enum Way {
    SockDiag(SockDiag),
    Proc,
    /// Neither works here, so nobody can be told.
    None,
}

/// The user whom the kernel names in the place of one who has no number in this user namespace.
const OVERFLOW_UID: u32 = 65534;
/// The user namespace in which every user has a number: the machine's own.
const WHOLE_MAP: [&str; 3] = ["0", "0", "4294967295"];

impl Owners {
    /// Finds out which way works on this machine, by a connection of its own.
    pub(crate) fn new() -> Arc<Self> {
        let own = geteuid().as_raw();
        let ways = [SockDiag::open().ok().map(Way::SockDiag), Some(Way::Proc)];
        let works = |way: &Way| probe(way).ok().flatten() == Some(own);
        let way = ways.into_iter().flatten().find(works).unwrap_or_else(|| {
            warn!("the owner of a connection cannot be looked up here; without a token, requests are refused");
            Way::None
        });
        // A user without a number here looks like this one.
        let shared =
            own == OVERFLOW_UID && !is_whole_map(&fs::read_to_string("/proc/self/uid_map").unwrap_or_default());
        Arc::new(Self { way, own: (!shared).then_some(own) })
    }

    /// Who opened this connection. To be asked when it has just been accepted.
    pub(crate) async fn peer_of(self: &Arc<Self>, stream: &TcpStream) -> Peer {
        let Ok(ends) = ends_of(stream) else { return Peer::Stranger { uid: None } };
        let found = match &self.way {
            Way::SockDiag(diag) => diag.owner(ends.peer, ends.own),
            // A table of all sockets of the machine may be long.
            Way::Proc => tokio::task::spawn_blocking(move || listed(ends)).await.unwrap_or(Ok(None)),
            Way::None => Ok(None),
        };
        let uid = found.unwrap_or_else(|error| {
            warn!(%error, "the owner of a connection was not found");
            None
        });
        // If the client had gone, its addresses could be somebody else's by now.
        match uid {
            Some(uid) if (uid == 0 || self.own == Some(uid)) && ends_of(stream).is_ok() => Peer::Own { uid },
            uid => Peer::Stranger { uid },
        }
    }
}

/// The addresses of a connection.
#[derive(Debug, Clone, Copy)]
struct Ends {
    own: SocketAddr,
    peer: SocketAddr,
}

fn ends_of(stream: &TcpStream) -> io::Result<Ends> {
    Ok(Ends { own: stream.local_addr()?, peer: stream.peer_addr()? })
}

/// The owner of the client's socket, from the list of all sockets.
fn listed(ends: Ends) -> io::Result<Option<u32>> {
    let (local, remote) = (canonical(ends.peer), canonical(ends.own));
    let is_it = |socket: &InternetSocket| socket.local == local && socket.peer == remote;
    Ok(tcp_sockets()?.into_iter().find(is_it).and_then(|socket| owner(socket.uid, socket.inode)))
}

fn is_whole_map(map: &str) -> bool {
    map.split_whitespace().eq(WHOLE_MAP)
}

/// The owner of a connection that this process makes to itself.
fn probe(way: &Way) -> io::Result<Option<u32>> {
    let listener = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0))?;
    let own = listener.local_addr()?;
    let client = BlockingStream::connect(own)?;
    let peer = client.local_addr()?;
    match way {
        Way::SockDiag(diag) => diag.owner(peer, own),
        Way::Proc => listed(Ends { own, peer }),
        Way::None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_name_the_owner_of_a_connection_and_nobody_for_one_that_is_closed() {
        let ways = [Way::SockDiag(SockDiag::open().unwrap()), Way::Proc];
        let own = geteuid().as_raw();
        for bind in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(bind) else {
                eprintln!("skipped: this machine has no {bind}");
                continue;
            };
            let local = listener.local_addr().unwrap();
            let client = BlockingStream::connect(local).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let asked = |way: &Way| match way {
                Way::SockDiag(diag) => diag.owner(peer, local).unwrap(),
                Way::Proc => listed(Ends { own: local, peer }).unwrap(),
                Way::None => None,
            };
            for way in &ways {
                assert_eq!(asked(way), Some(own), "{bind} {way:?}");
            }
            drop(client);
            for way in &ways {
                assert_eq!(asked(way), None, "{bind} {way:?}: closed by its program");
            }
            drop(accepted);
        }
    }

    #[test]
    fn a_listener_is_not_taken_for_the_client() {
        let diag = SockDiag::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        assert_eq!(diag.owner(local, "127.0.0.1:9".parse().unwrap()).unwrap(), None);
    }

    #[test]
    fn only_the_machines_own_namespace_has_a_number_for_every_user() {
        assert!(is_whole_map("         0          0 4294967295\n"));
        for part in ["", "0 1000 1\n", "0 0 4294967295\n1 1 1\n", "0 0 65536\n"] {
            assert!(!is_whole_map(part), "{part}");
        }
    }
}
