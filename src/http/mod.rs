//! The REST API over the orchestrator: one folder per resource. `router.rs` lists every route.

mod answer;
mod attachment;
mod engines;
mod feeds;
#[cfg(any(test, fuzzing))]
pub(crate) mod foreign;
mod inspect;
mod jobs;
mod management;
mod request;
mod router;
mod serve;
mod server;
mod skills;
mod state;
mod system;
mod ui;

pub use router::{Route, all_routes};
pub use serve::serve;
pub(crate) use serve::serve_read_only;
