//! System calls of the network: the loopback of a network namespace, and who listens on it.

use core::ptr::null;

use super::{Fd, MessageHead, Piece, Result, Rights, address, address_mut, call, number, word};
use crate::wire::PORTS_MAX;

const AF_INET: usize = 2;
const SOCK_CLOEXEC: usize = 0o2_000_000;
const MSG_NOSIGNAL: usize = 0x4000;

fn socket(kind: usize) -> Result<Fd> {
    // SAFETY: only numbers are passed.
    unsafe { call(number::SOCKET, [AF_INET, kind | SOCK_CLOEXEC, 0]) }.map(|fd| Fd(fd as i32))
}

/// Starts the loopback of this network namespace.
pub(crate) fn start_loopback() -> Result<()> {
    const SOCK_DGRAM: usize = 2;
    const SIOCSIFFLAGS: usize = 0x8914;
    const UP_AT: usize = 16;
    let socket = socket(SOCK_DGRAM)?;
    // A `struct ifreq`: the name in 16 bytes, and then flags, of which the lowest says that it is up.
    let mut request = [0_u8; 40];
    request.iter_mut().zip(b"lo").for_each(|(place, byte)| *place = *byte);
    if let Some(place) = request.get_mut(UP_AT..UP_AT + 2) {
        place.copy_from_slice(&1_u16.to_ne_bytes());
    }
    // SAFETY: the kernel reads and writes a `struct ifreq`, which has 40 bytes.
    let started = unsafe { call(number::IOCTL, [word(socket.0), SIOCSIFFLAGS, address_mut(&mut request)]) };
    super::close(socket);
    started.map(drop)
}

/// Listens on a port of the loopback.
pub(crate) fn listen(port: u16) -> Result<Fd> {
    const SOCK_STREAM: usize = 1;
    const WAITING: usize = 128;
    let socket = socket(SOCK_STREAM)?;
    let [high, low] = port.to_be_bytes();
    let [family, above] = (AF_INET as u16).to_ne_bytes();
    let address_of: [u8; 16] = [family, above, high, low, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: the kernel reads a `struct sockaddr_in`, which has 16 bytes.
    unsafe { call(number::BIND, [word(socket.0), address(&address_of), 16]) }?;
    // SAFETY: only numbers are passed.
    unsafe { call(number::LISTEN, [word(socket.0), WAITING]) }?;
    Ok(socket)
}

/// Sends bytes together with these files, at most [`PORTS_MAX`].
pub(crate) fn send_with_files(socket: Fd, bytes: &[u8], files: &[Fd]) -> Result<()> {
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    let mut piece = Piece { begin: bytes.as_ptr().cast_mut().cast(), length: bytes.len() };
    let count = files.len().min(PORTS_MAX);
    let length = size_of::<usize>() + 2 * size_of::<i32>() + count * size_of::<i32>();
    let mut rights = Rights { length, level: SOL_SOCKET, kind: SCM_RIGHTS, files: [-1; PORTS_MAX] };
    rights.files.iter_mut().zip(files).for_each(|(place, Fd(fd))| *place = *fd);
    let head = MessageHead {
        name: null(),
        name_length: 0,
        pieces: &raw mut piece,
        pieces_length: 1,
        control: (&raw mut rights).cast(),
        control_length: length.next_multiple_of(size_of::<usize>()),
        flags: 0,
    };
    // SAFETY: every place that the head names is ours, with its length; nothing of it is written.
    unsafe { call(number::SENDMSG, [word(socket.0), address(&head), MSG_NOSIGNAL]) }.map(drop)
}
