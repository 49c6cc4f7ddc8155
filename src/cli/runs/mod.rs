//! Commands that find, show, repeat and delete runs.

pub(crate) mod list;
pub(crate) mod remove;
pub(crate) mod result;
pub(crate) mod show;
mod table;
