//! `skill`: what authors need.

mod authoring;
mod command;
mod findings;
mod install;

pub(crate) use command::{Args, skill};
