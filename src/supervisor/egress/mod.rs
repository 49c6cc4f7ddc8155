//! The way out of a run's network: a proxy that knows whom the run may reach.

mod address;
mod names;
mod proxy;
mod request;
mod rules;

pub(crate) use proxy::serve;
#[cfg(any(test, fuzzing))]
pub(crate) use request::{end_of_head, read as read_head};
pub use rules::{Egress, Host};
pub(crate) use rules::{connections_of_a_run, proxy_variables};
