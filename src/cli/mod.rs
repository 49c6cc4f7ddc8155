//! The command line: one folder per family of commands. `command_line.rs` lists the commands.

mod command_line;
mod connect;
mod e2e_client;
mod engines;
mod failure;
mod global;
mod inspect;
mod logging;
mod run;
mod runs;
mod runtime;
mod service;
mod skill;
mod stop_signals;
mod terminal;
mod time_span;

pub use command_line::main;
#[cfg(any(test, fuzzing))]
pub(crate) use connect::event_stream::foreign as foreign_event_stream;
#[cfg(any(test, fuzzing))]
pub(crate) use terminal::foreign::Foreign as ForeignText;
