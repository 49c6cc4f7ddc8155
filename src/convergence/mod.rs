//! From an engine's raw output to a validated result: candidate, validation, normalization of its syntax.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod extract;
mod offer;
mod parse;
mod question;
mod scan;
mod step;
#[cfg(test)]
mod tests;
mod turn;

pub use crate::domain::validation::NormalizationLevel as Level;
pub(crate) use offer::{Choice, DONE_MARKER, Offer, Source, choose};
pub use parse::{Parsed, parse};
pub(crate) use parse::{validate, violated};
pub(crate) use question::{Question, without_blocks};
pub use step::{Step, StepName};
pub(crate) use turn::{Attempts, TurnVerdict, TurnWords, WordsVerdict, judge_turn, judge_words, offers};
