//! The shim: a small process between the service and one engine, which no descendant of the engine can leave.
//!
//! It is this program, started again under another name. A fork of the service without exec would take time in proportion
//! to the service's memory, and keep a copy of that memory for as long as the engine runs.

mod orphans;
mod serve;
mod start;
mod wire;

use std::ffi::OsStr;
use std::path::Path;

pub(crate) use orphans::{orphans, reaped};
pub(crate) use start::{Failure, Started, start};
pub(crate) use wire::{Order, Report, Request};

/// The path of the running program, valid even when its file has been replaced meanwhile.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";

/// To be called first in `main`: when this process was started as a shim, it serves as one and exits.
pub fn serve_as_shim_if_asked() {
    let name = std::env::args_os().next();
    if name.as_deref().and_then(|name| Path::new(name).file_name()) == Some(OsStr::new(wire::NAME)) {
        std::process::exit(serve::serve());
    }
}
