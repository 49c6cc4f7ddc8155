//! `doctor`: what is ready on this machine and what is not.

mod command;
mod engines;
mod finding;
mod folders;
mod machine;
mod python;

pub(crate) use command::{Args, doctor};
