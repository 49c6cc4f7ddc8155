//! How a command reaches runs: through a running service, or in the data folder itself.

pub(crate) mod calls;
pub(crate) mod client;
pub(crate) mod data_folder;
pub(crate) mod event_stream;
pub(crate) mod raw_output;
pub(crate) mod run_id;
pub(crate) mod runs;
pub(crate) mod service_address;
