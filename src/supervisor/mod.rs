//! Engine processes: spawn, read, stop, and leave nothing behind.
//!
//! Every engine runs under a *shim*, a small process that adopts the engine's orphans. So the process tree of a run is known
//! exactly and can be killed as a whole, and it dies with the service: the shim's control socket is closed even when the
//! service is killed with -9.

mod changes;
mod control_group;
mod disk_use;
mod egress;
mod first_process;
mod follower;
mod guard;
mod held_files;
mod log;
mod marks;
mod mask;
mod output;
mod probe;
mod process;
mod processes;
mod recorder;
mod restore;
mod sandbox;
mod shim;
mod simulated;
mod snapshot;
mod sockets;
mod source;
mod spawn;
mod spawner;
mod spool;
mod sweep;
mod tee;
mod tmp_dir;
mod usage;
mod watcher;
mod words;

pub use crate::domain::fact::Stream;
pub use crate::engine::ProcessExit;
pub use control_group::{ControlGroups, Controllers, Hierarchies};
pub use egress::{Egress, Host};
pub(crate) use egress::{connections_of_a_run, proxy_variables};
#[cfg(any(test, fuzzing))]
pub(crate) use egress::{end_of_head, read_head};
pub use first_process::leave_first_process;
pub use guard::Resources;
pub use marks::RUN_MARKER;
pub use output::{Ended, Output, StreamTotals};
pub(crate) use probe::probe_beside;
pub use probe::{Confinement, probe};
pub use process::Process;
pub(crate) use sandbox::hidden_of_machine;
pub use sandbox::{Access, Network, Sandbox, Shown};
pub use shim::ReadOnlyBind;
pub use simulated::{SimulatedEngine, SimulatedLog};
pub(crate) use sockets::{InternetSocket, tcp_sockets};
pub use spawn::{Error, Limits, Spec, spawn};
pub(crate) use spawner::ProcessSpawner;
pub use spawner::{Spawner, Spawning};
pub use sweep::{Swept, sweep};
#[cfg(any(test, fuzzing))]
pub(crate) use usage::foreign as foreign_process;
