//! Asks the kernel for one TCP socket through `sock_diag`, a netlink protocol.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Message types: a question about sockets of one family, which is also the type of its answer; an error.
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const REQUEST: u16 = 1;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const TCP: u8 = 6;

const HEAD_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 16;
/// An answer has the socket's addresses and numbers, and attributes that are not needed.
const ANSWER_BYTES: usize = 4096;

/// A socket for questions, kept open: a question costs two system calls.
#[derive(Debug)]
pub(crate) struct SockDiag(Mutex<Asking>);

#[derive(Debug)]
struct Asking {
    socket: OwnedFd,
    number: u32,
}

impl SockDiag {
    pub(crate) fn open() -> io::Result<Self> {
        let protocol = Some(netlink::SOCK_DIAG);
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol)?;
        Ok(Self(Mutex::new(Asking { socket, number: 0 })))
    }

    /// The user who made the socket with this address and this peer; none if there is no such socket, or its program has
    /// closed it.
    pub(crate) fn owner(&self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u32>> {
        let (local, remote) = (canonical(local), canonical(remote));
        let mut asking = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asking.number = asking.number.wrapping_add(1);
        let question = question(local, remote, asking.number);
        sendto(&asking.socket, &question, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = [0; ANSWER_BYTES];
        loop {
            // The kernel has answered before it returns from the question, so nothing is waited for.
            let (read, _) = recv(&asking.socket, &mut answer, RecvFlags::DONTWAIT)?;
            let message = answer.get(..read).unwrap_or_default();
            // What an interrupted question left behind is passed over.
            if word(message, 8) == Some(asking.number) {
                return owner_in(message, local, remote);
            }
        }
    }
}

/// A socket that its program has closed has no inode, and older kernels say that root owns it.
pub(crate) fn owner(uid: u32, inode: u64) -> Option<u32> {
    (inode != 0).then_some(uid)
}

/// An IPv4 address in the form of IPv6 is the IPv4 address.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn question(local: SocketAddr, remote: SocketAddr, number: u32) -> Vec<u8> {
    let mut body = vec![if local.is_ipv4() { AF_INET } else { AF_INET6 }, TCP, 0, 0];
    body.extend(u32::MAX.to_ne_bytes()); // In whatever state.
    body.extend(local.port().to_be_bytes());
    body.extend(remote.port().to_be_bytes());
    body.extend(address_bytes(local.ip()));
    body.extend(address_bytes(remote.ip()));
    body.extend(0_u32.to_ne_bytes()); // On whatever interface.
    body.extend([0xff; 8]); // Whichever of that name.
    let length = u32::try_from(HEAD_BYTES + body.len()).unwrap_or_default();
    let mut message = Vec::with_capacity(HEAD_BYTES + body.len());
    message.extend(length.to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend(number.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(body);
    message
}

fn address_bytes(address: IpAddr) -> [u8; ADDRESS_BYTES] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; ADDRESS_BYTES];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

fn owner_in(message: &[u8], local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u32>> {
    let kind = message.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let body = message.get(HEAD_BYTES..).unwrap_or_default();
    match kind {
        Some(BY_FAMILY) => {
            // If nobody has these addresses, the kernel may name a listener on one of them.
            let found = socket_in(body).filter(|found| (found.local, found.remote) == (local, remote));
            Ok(found.and_then(|found| owner(found.uid, found.inode)))
        }
        Some(ERROR) => {
            let number = word(body, 0).map_or(0, u32::cast_signed);
            let error = io::Error::from_raw_os_error(number.saturating_neg());
            if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) }
        }
        Some(_) | None => Err(io::ErrorKind::InvalidData.into()),
    }
}

struct Found {
    local: SocketAddr,
    remote: SocketAddr,
    uid: u32,
    inode: u64,
}

fn socket_in(body: &[u8]) -> Option<Found> {
    let family = *body.first()?;
    let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
    let address = |at: usize| match family {
        AF_INET => Some(IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(body.get(at..at + 4)?).ok()?))),
        AF_INET6 => {
            let bytes = <[u8; ADDRESS_BYTES]>::try_from(body.get(at..at + ADDRESS_BYTES)?).ok()?;
            Some(IpAddr::from(Ipv6Addr::from(bytes)))
        }
        _ => None,
    };
    Some(Found {
        local: canonical(SocketAddr::new(address(8)?, port(4)?)),
        remote: canonical(SocketAddr::new(address(24)?, port(6)?)),
        uid: word(body, 64)?,
        inode: word(body, 68)?.into(),
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
