//! The program's own log.

mod log_file;
mod setup;
mod stderr;

pub(crate) use setup::{to_file, to_terminal};
pub(crate) use stderr::tell;
