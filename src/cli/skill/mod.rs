//! `skill`: writes, checks, tests, packs, installs, lists, shows, rolls back and uninstalls skills.

mod authoring;
mod command;
mod findings;
mod install;
mod isolation;
mod lifecycle;
mod pack;
mod show;
mod test;

pub(crate) use command::{Args, skill};
