//! Runs in motion: the queue, an actor per running run, recovery, and the handle everybody else holds.

mod actor;
mod attempt;
mod clock;
mod close;
mod create;
mod error;
mod handle;
mod journal;
mod log;
mod prepare;
mod queue;
mod request;
mod seal;
mod startup;
mod verdict;

pub use error::Error;
pub use handle::{Canceled, Cleaned, Created, ListFilter, Listing, Orchestrator, Sizes, Uploaded};
pub use log::RunLog;
pub use request::{CreateRequest, OptionsRequest};
