//! The order, as it comes in.

use crate::sys::{self, Errno, Fd, Result};
use crate::wire::{FILES, Order};

/// Reads the order and the files that come with it.
pub(crate) fn receive(control: Fd) -> Result<(Order<'static>, [Fd; FILES])> {
    let mut length = [0; 4];
    let files = sys::receive_with_files(control, &mut length)?;
    let bytes = sys::memory(u32::from_le_bytes(length) as usize)?;
    read_whole(control, bytes)?;
    Order::decode(bytes).map(|order| (order, files)).ok_or(Errno::INVAL)
}

fn read_whole(control: Fd, mut into: &mut [u8]) -> Result<()> {
    while !into.is_empty() {
        match sys::read(control, into)? {
            0 => return Err(Errno::IO),
            read => into = into.get_mut(read..).unwrap_or_default(),
        }
    }
    Ok(())
}
