//! How a run comes in: the request is checked, the run created, its files uploaded.

pub(crate) mod create;
pub(crate) mod plan;
pub(crate) mod request;
pub(crate) mod rerun;
pub(crate) mod tags;
pub(crate) mod temp;
pub(crate) mod upload;
pub(crate) mod upload_warnings;

pub use create::Created;
pub(crate) use create::Planned;
pub use request::{CreateRequest, OptionsRequest};
pub use upload::{Delivery, Uploaded};
