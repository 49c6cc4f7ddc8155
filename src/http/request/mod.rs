//! Reads the parts of a request strictly: path, query, headers, body.

pub(crate) mod at_seq;
pub(crate) mod json_body;
mod misfit;
pub(crate) mod multipart;
mod part_heads;
pub(crate) mod path_params;
pub(crate) mod query;
pub(crate) mod received_files;
pub(crate) mod run_in_path;
pub(crate) mod unread_body;
pub(crate) mod wait;
