//! The engines as values: how each one is launched, and how its output is read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod adapter;
mod answer;
mod calls;
pub(crate) mod config;
mod excerpt;
mod failure;
mod framer;
mod hidden_keys;
mod home;
mod launch;
mod login;
mod messages;
mod model_name;
mod models;
mod parser;
mod process_exit;
mod reader;
mod report;
pub(crate) mod secret;
mod session;
mod structured;
mod tool_schema;
pub(crate) mod tools;
mod turn;
mod way_out;

mod claude;
mod codex;
mod gemini;
mod iflow;
mod opencode;
mod qwen;
pub mod script;

pub use adapter::{Adapter, Install};
pub use answer::{EngineAnswer, answer};
pub(crate) use failure::{is_of_connection, retry_after};
pub use launch::{Launch, PoliteSignal, Streams};
pub use parser::LINE_MAX;
pub(crate) use parser::TurnParser;
pub use process_exit::ProcessExit;
pub use reader::{LineParser, Reading, StreamReader};
pub use report::{ReportedEnd, TurnReport};
pub use way_out::{Closed, WayOut};

pub(crate) use home::SharedHome;
pub(crate) use launch::{ConfigFile, LaunchPlan};
pub(crate) use login::Login;
pub(crate) use models::{ModelListing, ModelNames};
pub(crate) use turn::{OutputSchema, Turn};

use std::borrow::Cow;

use crate::domain::engine::Engine;

/// A turn that says this: an engine, and what it prints.
pub(crate) fn sample_turn(says: &str) -> (Engine, String) {
    (Engine::Codex, codex::sample::turn(says))
}

/// The adapter of an agent CLI; the script engine has none.
pub fn adapter(engine: Engine) -> Option<&'static Adapter> {
    match engine {
        Engine::Codex => Some(&codex::ADAPTER),
        Engine::Gemini => Some(&gemini::ADAPTER),
        Engine::Opencode => Some(&opencode::ADAPTER),
        Engine::Iflow => Some(&iflow::ADAPTER),
        Engine::Claude => Some(&claude::ADAPTER),
        Engine::Qwen => Some(&qwen::ADAPTER),
        Engine::Script => None,
    }
}

/// The adapter of the agent CLI of this name, which may come from a log of another version.
pub fn adapter_named(name: &str) -> Option<&'static Adapter> {
    name.parse().ok().and_then(adapter)
}

/// The adapters of all agent CLIs, in the order in which they are tried.
pub fn adapters() -> impl Iterator<Item = &'static Adapter> {
    Engine::AGENTS.iter().copied().filter_map(adapter)
}

/// The folder of a run from which the engine of this name reads skills.
pub(crate) fn skills_folder(name: &str) -> Cow<'static, str> {
    match adapter_named(name) {
        Some(adapter) => adapter.skills_folder.into(),
        // The script engine, and engines of recorded runs that this version does not know.
        None => format!(".{name}/skills").into(),
    }
}

#[cfg(test)]
mod dialect_tests;
#[cfg(test)]
mod launch_tests;
#[cfg(test)]
mod table_tests;
