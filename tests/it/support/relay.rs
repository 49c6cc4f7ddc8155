//! Hands bytes on between clients and a server, and lets a test change them, or cut the connection.

use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
}

/// Told each piece on its way; with `false`, the connection is cut instead.
type Touch = dyn Fn(Way, &mut Vec<u8>) -> bool + Send + Sync;

pub struct Relay {
    pub address: SocketAddr,
    /// While this is set, connections are closed at once.
    away: Arc<AtomicBool>,
    /// Bytes that were handed on to the server.
    pub sent: Arc<AtomicU64>,
    pub cuts: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

impl Relay {
    pub fn to(server: SocketAddr, touch: impl Fn(Way, &mut Vec<u8>) -> bool + Send + Sync + 'static) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay {
            address: listener.local_addr().unwrap(),
            away: Arc::default(),
            sent: Arc::default(),
            cuts: Arc::default(),
            refused: Arc::default(),
        };
        let touch: Arc<Touch> = Arc::new(touch);
        let (away, sent, cuts) = (relay.away.clone(), relay.sent.clone(), relay.cuts.clone());
        let refused = relay.refused.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Some(server) = TcpStream::connect(server).ok().filter(|_| !away.load(Ordering::SeqCst)) else {
                    refused.fetch_add(1, Ordering::SeqCst);
                    continue;
                };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                for (way, from, to) in [(Way::ToServer, &client, &server), (Way::ToClient, &server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (touch, away, sent, cuts) = (touch.clone(), away.clone(), sent.clone(), cuts.clone());
                    std::thread::spawn(move || {
                        hand_on(&from, &to, |bytes| {
                            if away.load(Ordering::SeqCst) || !touch(way, bytes) {
                                cuts.fetch_add(1, Ordering::SeqCst);
                                return false;
                            }
                            if way == Way::ToServer {
                                sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
                            }
                            true
                        });
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    });
                }
            }
        });
        relay
    }

    /// One that only counts.
    pub fn plain(server: SocketAddr) -> Relay {
        Relay::to(server, |_, _| true)
    }

    /// Connections that were closed at once.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// The server is away, or is back.
    pub fn away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }
}

fn hand_on(mut from: &TcpStream, mut to: &TcpStream, pass: impl Fn(&mut Vec<u8>) -> bool) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).unwrap_or(0);
        let mut bytes = buffer[..count].to_vec();
        if count == 0 || !pass(&mut bytes) || to.write_all(&bytes).is_err() {
            return;
        }
    }
}
