//! Around every request: access checks and tracing.

pub(crate) mod access;
pub(crate) mod request_span;
