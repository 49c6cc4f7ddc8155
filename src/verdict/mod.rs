//! The judgement on a turn: what an engine or script left, weighed against the skill's contract.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub(crate) mod cli;
pub(crate) mod normalize;
pub(crate) mod script;
pub(crate) mod stop;
#[expect(clippy::module_inception, reason = "the type the module is named after")]
pub(crate) mod verdict;
