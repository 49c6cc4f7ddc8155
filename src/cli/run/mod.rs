//! Commands that drive a run: run, watch, reply, cancel.

mod args;
mod backend;
pub(crate) mod cancel;
mod command;
mod conversation;
mod embedded;
mod event_channel;
mod input_zip;
mod key_value;
mod outcome;
mod remote;
pub(crate) mod reply;
mod request;
pub(crate) mod watch;

pub(crate) use args::Args;
pub(crate) use command::run;
