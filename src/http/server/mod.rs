//! Shared by all handlers: state, access checks, tracing, tasks.

pub(crate) mod access;
pub(crate) mod app;
pub(crate) mod request_span;
pub(crate) mod task;
