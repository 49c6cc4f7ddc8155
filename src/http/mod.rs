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
pub(crate) use server::grant::is_equal_secret;
pub(crate) use server::host::is_allowed as is_allowed_host;
pub(crate) use server::origin::{Origin, is_of_other_page};
pub(crate) use server::peer::{Owners, Peer};
pub(crate) use server::request_span::ACCESS_TARGET;
pub use server::route_table::Route;
pub(crate) use server::security::add_to as add_security_headers;
pub(crate) use ui::pages::embedded_file;
