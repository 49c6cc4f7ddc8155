//! The sandbox of a run: what its processes see, what they may change, and whom they reach.

mod filter;
mod plan;

pub(crate) use filter::encoded as filters;
pub(crate) use plan::hidden_of_machine;
pub use plan::{Access, Network, Sandbox, Shown};
