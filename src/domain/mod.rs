//! The pure heart: ids, events, the statechart, and the three words decide, apply, effects.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod artifact;
pub mod cache_key;
pub mod causes;
pub mod command;
mod decide;
mod effect;
pub mod engine;
pub mod event;
pub mod fact;
pub mod ids;
pub mod interaction;
pub mod outcome;
pub mod request;
pub mod run_file;
pub mod state;
pub mod statechart;
pub mod time;

#[cfg(test)]
mod properties;

pub use decide::{decide, goes_on_queued};
pub use effect::{Effect, effects};
