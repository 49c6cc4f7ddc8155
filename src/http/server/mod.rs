//! What every connection and request goes through: places and time limits, who it is and what it may do, checks, and the span for the log.

pub(crate) mod access;
pub(crate) mod connection;
pub(crate) mod cookie;
pub(crate) mod grant;
pub(crate) mod header;
pub(crate) mod host;
pub(crate) mod origin;
pub(crate) mod peer;
pub(crate) mod request_span;
pub(crate) mod route_table;
pub(crate) mod security;
pub(crate) mod slots;
mod sock_diag;
mod wire;
