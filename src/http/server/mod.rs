//! What surrounds every handler: shared state, access, tasks.

pub(crate) mod access;
pub(crate) mod app;
pub(crate) mod request_span;
pub(crate) mod task;
