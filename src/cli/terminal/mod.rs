//! What people see and type: colours, lines of events, questions, output.

pub(crate) mod awaited;
pub(crate) mod dialogue;
pub(crate) mod event_line;
pub(crate) mod failure_text;
pub(crate) mod fold;
pub(crate) mod foreign;
pub(crate) mod look;
pub(crate) mod output;
mod report;
pub(crate) mod screen;
pub(crate) mod table;
pub(crate) mod wrap;
