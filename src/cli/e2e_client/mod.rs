//! `e2e-client`: the example client, a process of its own that knows the service by its HTTP API alone.

mod allowed;
mod answers;
pub(crate) mod command;
mod forward;
mod gate;
mod listener;
mod multipart;
mod recording;
mod recordings;
mod routes;
mod state;
