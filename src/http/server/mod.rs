//! What every connection and request goes through: places and time limits, checks, and the span for the log.

pub(crate) mod access;
pub(crate) mod connection;
pub(crate) mod request_span;
pub(crate) mod slots;
mod wire;
