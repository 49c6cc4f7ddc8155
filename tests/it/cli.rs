//! The command line, as its users have it: real processes of the binary in folders of their own.

mod audit;
pub mod place;
mod reading;
mod running;
mod serving;
