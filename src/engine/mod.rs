//! Engines as values: how to launch one, and how to read what it prints.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod adapter;
pub mod config;
pub mod contract;
mod excerpt;
mod failure;
mod framer;
mod launch;
mod messages;
mod parser;
pub mod prompt;
mod reader;
mod report;
mod tool_schema;
mod turn;
mod verdict;

pub mod claude;
pub mod codex;
pub mod gemini;
pub mod iflow;
pub mod opencode;
pub mod qwen;
pub mod script;

pub use adapter::{Adapter, HandleKind, Install, State};
pub use excerpt::EXCERPT_MAX;
pub use failure::{ENGINE_AUTH_REQUIRED, ENGINE_RATE_LIMITED, Failure};
pub use framer::{LineFramer, Piece};
pub use launch::{Launch, PoliteSignal};
pub use parser::{Dialect, LINE_MAX, Line, TurnParser};
pub use reader::{LineParser, Reading, StreamReader};
pub use report::{Denial, TurnEnd, TurnReport};
pub use turn::{ConfigFile, ENGINE_CONFIG_INVALID, LaunchPlan, OutputSchema, Turn, TurnRefused};
pub use verdict::{EngineVerdict, Exit, verdict};

/// Every engine with a command line of its own, in the order in which they are tried.
pub static ADAPTERS: [&Adapter; 6] =
    [&codex::ADAPTER, &gemini::ADAPTER, &opencode::ADAPTER, &iflow::ADAPTER, &claude::ADAPTER, &qwen::ADAPTER];

/// The engine of this name; `script` has no adapter.
pub fn adapter(name: &str) -> Option<&'static Adapter> {
    ADAPTERS.into_iter().find(|adapter| adapter.name == name)
}

/// The state of an engine, the built-in one included.
pub fn state(name: &str) -> Option<State> {
    if name == script::ENGINE { Some(State::BuiltIn) } else { adapter(name).map(|adapter| adapter.state) }
}

#[cfg(test)]
mod dialect_tests;
#[cfg(test)]
mod launch_tests;
