//! The program's own log.

mod access_file;
mod log_file;
mod setup;
mod stderr;

pub(crate) use setup::{to_file, to_terminal};
pub(crate) use stderr::tell;
