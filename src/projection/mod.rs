//! Views of a run, folded from its state and its log: what programs and front ends read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod explain;
mod failure;
mod job;
mod locate;
mod pointer;
mod shown;
pub(crate) mod trace;

pub(crate) use explain::{Explanation, FilePlace, Origin, Precision, Trail};
pub(crate) use failure::{FailureExplanation, FailureTrail, Refused, Violation};
pub(crate) use job::Job;
pub use job::job;
pub(crate) use locate::{Work, places};
pub(crate) use pointer::{Pointer, span};
pub(crate) use shown::{Hidden, check_shown, check_shown_of_skill, is_in_skill_copy, may_lead_to_shown};
