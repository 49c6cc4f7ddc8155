//! A run's events, as a stream or as pages, and its logs.

pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod logs;
pub(crate) mod sse;
pub(crate) mod ticket;
