//! `/v1/engines`: the agent CLIs of this machine, their models, their installation.

pub(crate) mod models;
pub(crate) mod status;
pub(crate) mod upgrades;
