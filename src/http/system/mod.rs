//! The service itself: whether it is up, its version, load and limits.

pub(crate) mod health;
pub(crate) mod info;
