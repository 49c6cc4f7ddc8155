//! How a run that may start gets its turn: an equal run's result, a wait for an equal run, or a place in the queue.

pub(crate) mod admit;
pub(crate) mod cache;
pub(crate) mod effects;
pub(crate) mod spent_config;
