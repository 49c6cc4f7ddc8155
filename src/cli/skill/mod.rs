//! `skill`: writes, checks, installs, imports and lists skills.

mod authoring;
mod command;
mod findings;
mod install;

pub(crate) use command::{Args, skill};
