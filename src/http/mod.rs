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
mod openapi;
mod request;
mod router;
mod serve;
mod server;
mod skills;
mod state;
mod system;
mod ui;

pub use router::{all_routes, openapi_document};
pub use serve::serve;
pub(crate) use serve::serve_read_only;
pub(crate) use server::request_span::ACCESS_TARGET;
pub use server::route_table::Route;
