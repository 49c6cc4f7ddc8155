//! Runs in motion: the queue, an actor per running run, recovery, and the handle everybody else holds.

mod error;
// mod handle;
// mod log;
mod request;

pub use error::Error;
// pub use handle::{Canceled, Cleaned, Created, Listing, ListFilter, Orchestrator, Uploaded};
// pub use log::RunLog;
pub use request::{CreateRequest, OptionsRequest};
