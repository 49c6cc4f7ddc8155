//! Commands about the service: serve, token, doctor, config.

mod banner;
pub(crate) mod config;
pub(crate) mod doctor;
mod engine_config;
pub(crate) mod generate;
pub(crate) mod nodes;
pub(crate) mod serve;
pub(crate) mod token;
