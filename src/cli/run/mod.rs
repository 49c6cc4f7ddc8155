//! Commands that drive a run: run, rerun, watch, reply, cancel.

mod args;
mod backend;
pub(crate) mod cancel;
mod command;
mod conversation;
mod embedded;
mod event_channel;
mod in_flags;
pub(crate) mod input_files;
mod key_value;
mod outcome;
pub(crate) mod remote;
pub(crate) mod reply;
mod request;
pub(crate) mod rerun;
pub(crate) mod watch;

pub(crate) use args::Args;
pub(crate) use command::run;
pub(crate) use key_value::KeyValue;
pub(crate) use outcome::{ArtifactsAt, Outcome};
