//! The service itself: whether it is up, its version, load and limits.

pub(crate) mod backups;
pub(crate) mod health;
pub(crate) mod info;
pub(crate) mod metrics;
pub(crate) mod settings;
