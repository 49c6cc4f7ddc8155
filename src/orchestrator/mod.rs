//! Runs in motion: the queue, an actor per running run, recovery, and the handle everybody else holds.

mod actor;
mod attempt;
mod clock;
mod close;
mod conclude;
mod create;
mod deadlines;
mod error;
mod explain;
mod export;
mod handle;
mod inventory;
mod journal;
mod log;
mod prepare;
mod prepare_cli;
mod queue;
mod reply;
mod request;
mod seal;
mod startup;
mod turn_reader;
mod upload;
mod verdict;

pub use error::Error;
pub use handle::{Canceled, Created, Orchestrator, Sizes};
pub use inventory::{Cleaned, ListFilter, Listing};
pub use log::RunLog;
pub use reply::{PendingQuestion, Replied};
pub use request::{CreateRequest, OptionsRequest};
pub use upload::Uploaded;
