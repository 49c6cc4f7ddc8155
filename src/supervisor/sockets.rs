//! The open sockets of a process in words: which protocol, from where, to whom, in which state.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The states of TCP as the kernel numbers them, from 1.
const STATES: [&str; 11] = [
    "established",
    "connecting",
    "handshake",
    "closing",
    "closing",
    "time-wait",
    "closed",
    "close-wait",
    "last-ack",
    "listening",
    "closing",
];

/// What each socket of a network is, by its inode.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sockets(HashMap<u64, String>);

impl Sockets {
    /// The sockets of the network that a process sees. What cannot be read is left out.
    pub(crate) fn seen_by(pid: i32) -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
        let mut known = HashMap::new();
        for (protocol, table) in [("tcp", "tcp"), ("tcp", "tcp6"), ("udp", "udp"), ("udp", "udp6")] {
            known.extend(read(table).lines().skip(1).filter_map(|line| internet(protocol, line)));
        }
        known.extend(read("unix").lines().skip(1).filter_map(unix));
        Self(known)
    }

    /// A descriptor that points to `socket:[inode]`, in words; `None` for any other.
    pub(crate) fn describe(&self, link: &str) -> Option<String> {
        let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
        let known = inode.parse().ok().and_then(|inode: u64| self.0.get(&inode).cloned());
        Some(known.unwrap_or_else(|| link.to_owned()))
    }
}

fn internet(protocol: &str, line: &str) -> Option<(u64, String)> {
    let InternetSocket { local, peer, state, inode, .. } = InternetSocket::parse(line)?;
    let state = if protocol == "tcp" { STATES.get(state.checked_sub(1)?).copied()? } else { "open" };
    let peer = if peer.port() == 0 { String::new() } else { format!(" -> {peer}") };
    Some((inode, format!("{protocol} {local}{peer} {state}")))
}

/// One socket of the kernel's tables of TCP and UDP.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InternetSocket {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    state: usize,
    /// Who made it.
    pub(crate) uid: u32,
    /// 0 if no program has it any more.
    pub(crate) inode: u64,
}

impl InternetSocket {
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Some(Self {
            local: address(fields.get(1)?)?,
            peer: address(fields.get(2)?)?,
            state: usize::from_str_radix(fields.get(3)?, 16).ok()?,
            uid: fields.get(7)?.parse().ok()?,
            inode: fields.get(9)?.parse().ok()?,
        })
    }
}

/// Every TCP socket of the network that this process sees.
pub(crate) fn tcp_sockets() -> io::Result<Vec<InternetSocket>> {
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        match fs::read_to_string(format!("/proc/self/net/{table}")) {
            Ok(text) => found.extend(text.lines().skip(1).filter_map(InternetSocket::parse)),
            // A machine without IPv6 has no table of it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The kernel writes addresses as words of the machine's byte order in hexadecimal.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..host.len()).step_by(8) {
        bytes.extend_from_slice(&u32::from_str_radix(host.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    match bytes.len() {
        4 => Some((Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?), port).into()),
        16 => Some((Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(), port).into()),
        _ => None,
    }
}

fn unix(line: &str) -> Option<(u64, String)> {
    let mut fields = line.split_whitespace();
    let inode = fields.nth(6)?.parse().ok()?;
    let path: Vec<&str> = fields.collect();
    let name = if path.is_empty() { "unnamed".to_owned() } else { path.join(" ") };
    Some((inode, format!("unix {name}")))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_connection_is_described_with_both_its_ends_and_a_named_socket_with_its_name() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let client = TcpStream::connect(at).unwrap();
        let own = client.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a socket");
        let named = UnixListener::bind(&path).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let link = |fd: i32| fs::read_link(format!("/proc/self/fd/{fd}")).unwrap().to_string_lossy().into_owned();

        let sockets = Sockets::seen_by(pid);

        let described = |fd: i32| sockets.describe(&link(fd)).unwrap();
        assert_eq!(described(listener.as_raw_fd()), format!("tcp {at} listening"));
        assert_eq!(described(client.as_raw_fd()), format!("tcp {own} -> {at} established"));
        assert_eq!(described(named.as_raw_fd()), format!("unix {}", path.display()));
    }

    #[test]
    fn a_mapped_address_is_described_as_the_ipv4_address_it_is() {
        let line = "  1: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1";
        assert_eq!(internet("tcp", line), Some((4711, "tcp 127.0.0.1:8080 listening".into())));
    }

    #[test]
    fn what_is_no_socket_is_left_out_and_an_unknown_one_has_its_number() {
        let none = Sockets::default();
        assert_eq!(none.describe("pipe:[5]"), None);
        assert_eq!(none.describe("socket:[5]"), Some("socket:[5]".into()));
        for broken in ["", "1: x", "1: 0100007F:0035 0:0 01 a b c 0 e 5"] {
            assert_eq!(internet("tcp", broken), None);
        }
    }
}
