//! `skill test`: the package's own tests, on its script or on recorded output of an engine.

mod carry_out;
mod command;
mod recorded;

pub(crate) use command::test;
