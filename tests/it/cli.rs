//! The command line, as its users have it: real processes of the binary in folders of their own.

mod audit;
mod engines;
mod finding;
mod foreign;
mod hostile;
mod isolation;
pub mod place;
mod reading;
mod request_log;
mod run_log;
mod running;
mod scarcity;
mod serving;
mod threads;
mod watching;
mod width;
