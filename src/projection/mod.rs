//! Views of a run, folded from its state and its log: what programs and front ends read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod carrier;
mod explain;
mod job;
mod pointer;

pub use carrier::places;
pub use explain::{Carrier, Explanation, FilePlace, Origin, Precision, Trail, Validation};
pub use job::{Job, job};
pub use pointer::{NotAPointer, Pointer, span};
