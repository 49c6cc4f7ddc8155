//! From an engine's raw output to a validated result: candidate, validation, normalization of its syntax.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod extract;
mod parse;
mod question;
mod scan;
mod step;
#[cfg(test)]
mod tests;
mod turn;

pub use crate::domain::validation::NormalizationLevel as Level;
pub use parse::{Parsed, parse};
pub(crate) use parse::{Validity, validate};
pub(crate) use question::{BEGIN as ASK_BEGINS, END as ASK_ENDS, Question};
pub use step::{Step, StepName};
pub(crate) use turn::{DONE_MARKER, TurnVerdict, TurnWords, WordsVerdict, judge_turn, judge_words};
