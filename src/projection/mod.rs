//! Views of a run, folded from its state: what programs and front ends read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod job;

pub use job::{Job, job};
