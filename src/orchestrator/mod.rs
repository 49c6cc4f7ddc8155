//! Runs in motion. The folders show the way of a run: `intake` takes it in, `admission` queues it, `turn` carries out
//! one turn of its engine, `runs` drives, recovers and ends it, `inspect` answers questions about it.

mod admission;
mod environment;
mod error;
mod handle;
mod inspect;
mod intake;
mod log;
mod packages;
mod runs;
mod turn;

pub use environment::{Blocking, Clock, Environment, WallClock};
pub use error::Error;
pub use handle::{Canceled, Created, Orchestrator, Sizes};
pub use inspect::{CacheOutcome, CacheStory, DifferingPart};
pub use intake::{CreateRequest, Delivery, OptionsRequest, Uploaded};
pub use log::RunLog;
pub use packages::{
    Install, InstallFailure, InstallStatus, NotInstalled, PackageRefused, install_here, unpack_package,
};
pub use runs::{Cleaned, ListFilter, Listing, PendingQuestion, Replied};
