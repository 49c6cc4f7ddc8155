//! Engine processes: spawn, read, stop, and leave nothing behind.
//!
//! Every engine lives under a *shim*, a small process of ours that adopts whatever the engine leaves
//! behind. So the tree of a run is known exactly, it can be killed whole, and it dies with the service:
//! the shim sees its control socket close even when the service is killed with -9.

mod glimpse;
mod host;
mod keeper;
mod log;
mod process;
mod processes;
mod put_back;
mod recorder;
mod shim;
mod sockets;
mod spawn;
mod stage;
mod sweep;
mod tee;
mod tmp_dir;

pub use glimpse::{Glimpse, glimpse};
pub use host::{Host, Starting, ThisMachine};
pub use process::{Ended, Exit, Output, Process, Stream, StreamTotals};
pub use shim::{THIS_PROGRAM, serve_as_shim_if_asked};
pub use spawn::{Error, Limits, Spec, spawn};
pub use stage::{PlayedLog, Stage};
pub use sweep::{Swept, sweep};

/// The environment variable that names the run a process belongs to.
pub const RUN_MARKER: &str = "SKILL_RUNNER_RUN_ID";
