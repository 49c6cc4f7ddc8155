//! The way to a server: its addresses one after the other, until one answers that takes writes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_util::either::Either;

const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVES: u32 = 3;
/// How long sent bytes may stay without an acknowledgement before the connection counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(15);

/// Bytes to and from a server.
pub(super) type Wire = Either<TcpStream, UnixStream>;

/// One server, and where it is.
pub(super) struct Server {
    at: Where,
    /// By which its certificate is known.
    pub(super) name: String,
}

enum Where {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// The servers of a URL, in their order.
pub(super) fn servers(config: &Config) -> Vec<Server> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let server = |at: usize| {
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        let name = match hosts.get(at) {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(_)) | None => String::new(),
        };
        let at = match (addresses.get(at), hosts.get(at)) {
            (Some(address), _) => Where::Tcp(address.to_string(), port),
            (None, Some(Host::Tcp(name))) => Where::Tcp(name.clone(), port),
            (None, Some(Host::Unix(folder))) => Where::Unix(folder.join(format!(".s.PGSQL.{port}"))),
            (None, None) => return None,
        };
        Some(Server { at, name })
    };
    (0..hosts.len().max(addresses.len())).filter_map(server).collect()
}

impl Server {
    /// The first of its addresses that takes a connection.
    pub(super) async fn reach(&self) -> io::Result<Wire> {
        let (name, port) = match &self.at {
            Where::Tcp(name, port) => (name.as_str(), *port),
            Where::Unix(path) => return Ok(Either::Right(UnixStream::connect(path).await?)),
        };
        let mut failed = io::Error::other("its name has no address");
        for address in lookup_host((name, port)).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    tuned(&stream)?;
                    return Ok(Either::Left(stream));
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// The system finds out by itself when nobody is at the other end.
fn tuned(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVES)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(LOST_AFTER.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}
