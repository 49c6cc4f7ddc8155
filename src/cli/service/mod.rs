//! Commands about the service: serve, doctor, config.

pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod serve;
