//! Views of a run, folded from its state: what programs and front ends read.

mod job;

pub use job::{Job, job};
