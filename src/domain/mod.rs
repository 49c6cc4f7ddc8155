//! The pure core: ids, events, the statechart, and its three functions decide, apply and effects.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod artifact;
pub mod cache_key;
pub mod causes;
pub mod codes;
pub mod command;
mod decide;
mod effect;
pub mod ending;
pub mod engine;
pub mod event;
pub mod fact;
pub mod fair_queue;
pub(crate) mod file_name;
pub mod ids;
pub mod integrity;
pub mod interaction;
pub mod isolation;
pub(crate) mod json_text;
pub mod outcome;
pub(crate) mod plain_json;
pub mod proven_file;
pub(crate) mod releases;
pub mod request;
pub mod resources;
pub(crate) mod retention;
pub mod run_file;
pub(crate) mod similar;
pub mod state;
pub mod statechart;
pub mod time;
pub(crate) mod trace_context;
pub mod validation;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod retrying;
#[cfg(test)]
pub(crate) mod samples;

pub use decide::{Decision, decide};
pub(crate) use effect::{Effect, effects};
pub use ending::{Ending, ending};
