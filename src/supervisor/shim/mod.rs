//! The shim: a small process of ours between the service and one engine, which lets nothing escape.
//!
//! It is this very program, started anew under another name: a fork of the service without exec would cost time
//! in proportion to the service's memory, and keep a copy of it for as long as the engine runs.

mod heirs;
mod keep;
mod start;
mod wire;

use std::ffi::OsStr;
use std::path::Path;

pub(super) use heirs::{heirs, reaped};
pub(super) use start::{Failure, Started, start};
pub(super) use wire::{Order, Report, Request};

/// The name under which the program is a shim.
const NAME: &str = "skill-run-shim";

/// Where a running program finds itself, even when its file has been replaced meanwhile.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// To be called first in `main`: when this process was started as a shim, it serves as one and exits.
pub fn serve_as_shim_if_asked() {
    let name = std::env::args_os().next();
    if name.as_deref().and_then(|name| Path::new(name).file_name()) == Some(OsStr::new(NAME)) {
        std::process::exit(keep::serve());
    }
}
