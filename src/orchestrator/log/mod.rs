//! The logs of runs: written by a journal, read from the store or a sealed file, sealed when a run is final.

pub(crate) mod checked;
pub(crate) mod coverage;
pub(crate) mod damage;
pub(crate) mod idempotency;
pub(crate) mod journal;
mod known_heads;
mod past;
pub(crate) mod run_log;
pub(crate) mod seal;
pub(crate) mod sealed_check;
pub(crate) mod whole_log;

pub(crate) use past::Past;
pub use run_log::{Events, RunLog};
