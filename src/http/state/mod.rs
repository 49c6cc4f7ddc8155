//! What every handler shares: the state of the service, encoded events, tasks.

pub(crate) mod access_changes;
pub(crate) mod access_list;
pub(crate) mod app;
pub(crate) mod body_room;
pub(crate) mod credential;
pub(crate) mod export_room;
pub(crate) mod failed_logins;
pub(crate) mod frames;
pub(crate) mod in_force;
pub(crate) mod json;
pub(crate) mod pass;
pub(crate) mod room;
pub(crate) mod run_span;
pub(crate) mod shared_access;
pub(crate) mod shared_tickets;
pub(crate) mod task;
pub(crate) mod tickets;
pub(crate) mod turns;
pub(crate) mod wanted;
