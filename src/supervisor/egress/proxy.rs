//! Serves the sockets that listen in a run's network namespace.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::address::is_public;
use super::names::Names;
use super::request::{self, HEAD_MAX};
use super::rules::{Allowed, Egress};
use crate::engine::{Closed, WayOut};
use crate::supervisor::output::Output;

const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

struct Proxy {
    egress: Egress,
    names: Names,
    outputs: mpsc::Sender<Output>,
    /// Whom the run has tried to reach.
    way_out: Arc<Mutex<WayOut>>,
}

/// Serves the run's sockets, the proxy's first, until the tasks are aborted, and notes in `way_out` whom the run reached.
pub(crate) fn serve(
    listeners: Vec<OwnedFd>,
    egress: Egress,
    outputs: mpsc::Sender<Output>,
    way_out: Arc<Mutex<WayOut>>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let ports = egress.ports();
    // Further connections wait.
    let room = Arc::new(Semaphore::new(egress.connections));
    let proxy = Arc::new(Proxy { egress, names: Names::new(), outputs, way_out });
    let mut tasks = Vec::new();
    for (at, (listener, port)) in listeners.into_iter().zip(ports).enumerate() {
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let served = if at == 0 { Served::Proxy } else { Served::Port(port) };
        tasks.push(tokio::spawn(accept(listener, served, proxy.clone(), room.clone())));
    }
    Ok(tasks)
}

#[derive(Clone, Copy)]
enum Served {
    Proxy,
    /// A port of the machine's loopback.
    Port(u16),
}

async fn accept(listener: TcpListener, served: Served, proxy: Arc<Proxy>, room: Arc<Semaphore>) {
    // Dropped with this task, and then everything in it ends.
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let Ok((client, _)) = listener.accept().await else {
            // No free descriptor: perhaps there is one later.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let proxy = proxy.clone();
        connections.spawn(async move {
            // Either side may break off at any time.
            let _ = match served {
                Served::Proxy => proxy.answer(client).await,
                Served::Port(port) => proxy.pass_on(client, port).await,
            };
            drop(place);
        });
    }
}

impl Proxy {
    /// Connects a port of the run's loopback with the same of the machine's; only the operator names such a port.
    async fn pass_on(&self, mut client: TcpStream, port: u16) -> io::Result<()> {
        let found = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
        let closed = found.as_ref().err().map(|error| Closed::Unreachable(error.to_string()));
        self.note(&Ipv4Addr::LOCALHOST.to_string(), port, Some(Allowed::Anywhere), closed);
        let mut host = found?;
        let _ = (client.set_nodelay(true), host.set_nodelay(true));
        copy_bidirectional(&mut client, &mut host).await.map(drop)
    }

    async fn answer(&self, mut client: TcpStream) -> io::Result<()> {
        let mut bytes = Vec::new();
        let head = timeout(HEAD_TIMEOUT, read_head(&mut client, &mut bytes)).await;
        let Ok(Ok(end)) = head else { return refuse(&mut client, "400 Bad Request", "no request was read").await };
        let (head, rest) = bytes.split_at_checked(end).unwrap_or((&bytes, &[]));
        let Some(wanted) = request::read(head) else {
            return refuse(&mut client, "400 Bad Request", "this is a proxy: CONNECT host:port, or http:// addresses")
                .await;
        };
        let allowed = self.egress.allows(&wanted.host, wanted.port);
        let found = self.connect(&wanted.host, wanted.port, allowed).await;
        let new = self.note(&wanted.host, wanted.port, allowed, found.as_ref().err().cloned());
        let mut host = match found {
            Ok(host) => host,
            Err(Closed::Refused(reason)) => {
                if new {
                    let refused = Output::EgressRefused { host: wanted.host.clone(), port: wanted.port, reason };
                    // If nobody listens any more, the run is over.
                    let _ = self.outputs.send(refused).await;
                }
                return refuse(&mut client, "403 Forbidden", &format!("EGRESS_REFUSED: {reason}")).await;
            }
            Err(Closed::Unreachable(reason)) => return refuse(&mut client, "502 Bad Gateway", &reason).await,
        };
        let _ = (client.set_nodelay(true), host.set_nodelay(true));
        match &wanted.head {
            Some(head) => host.write_all(head).await?,
            None => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
        }
        host.write_all(rest).await?;
        copy_bidirectional(&mut client, &mut host).await.map(drop)
    }

    /// Connects to a host, if the run may reach it. Its name is resolved once, and the address that was looked at is the one
    /// that is used.
    async fn connect(&self, name: &str, port: u16, allowed: Option<Allowed>) -> Result<TcpStream, Closed> {
        let Some(allowed) = allowed else {
            return Err(Closed::Refused("it is not among the hosts that this run may reach"));
        };
        let unreachable = |error: io::Error| Closed::Unreachable(error.to_string());
        let late = || Closed::Unreachable(io::ErrorKind::TimedOut.to_string());
        let found = timeout(CONNECT_TIMEOUT, self.names.find(name, port)).await.map_err(|_| late())?;
        let found = found.map_err(unreachable)?.into_iter();
        let usable: Vec<SocketAddr> =
            found.filter(|address| allowed == Allowed::Anywhere || is_public(address.ip())).collect();
        if usable.is_empty() {
            return Err(Closed::Refused("its address is of this machine or of a private network"));
        }
        timeout(CONNECT_TIMEOUT, TcpStream::connect(&usable[..])).await.map_err(|_| late())?.map_err(unreachable)
    }

    /// Notes a try; whether it is the first time that this host was refused.
    fn note(&self, host: &str, port: u16, allowed: Option<Allowed>, closed: Option<Closed>) -> bool {
        let needed = allowed == Some(Allowed::Anywhere);
        self.way_out.lock().unwrap_or_else(PoisonError::into_inner).tried(host, port, needed, closed)
    }
}

/// Reads until the head is whole; where it ends.
async fn read_head(client: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        if let Some(end) = request::end_of_head(bytes) {
            return Ok(end);
        }
        if bytes.len() > HEAD_MAX || client.read_buf(bytes).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

async fn refuse(client: &mut TcpStream, status: &str, reason: &str) -> io::Result<()> {
    let length = reason.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{reason}\n"
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}
