//! The way out of a run's network: a proxy that knows whom the run may reach.

mod address;
mod proxy;
mod request;
mod rules;

pub(crate) use proxy::serve;
pub(crate) use rules::proxy_variables;
pub use rules::{Egress, Host};
