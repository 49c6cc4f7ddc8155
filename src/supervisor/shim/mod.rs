//! The service's side of the shim: its program, its start, and the order it is given.

mod order;
mod program;
mod start;

pub(crate) use order::Order;
pub use order::ReadOnlyBind;
pub(crate) use skill_runner_shim::wire::{Report, Request, lease};
pub(crate) use start::{EnginesEnds, Failure, Started, start};
