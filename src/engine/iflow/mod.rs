//! iFlow: closed since April 2026; plain text out, an information block with the session beside it.

mod launch;
mod parse;

use serde_json::{Value, json};

use super::adapter::{Adapter, HandleKind, State, no_status};
use super::config::{Format, Kind};
use super::launch::PoliteSignal;
use crate::domain::request::ExecutionMode;

/// The engine.
pub static ADAPTER: Adapter = Adapter {
    name: "iflow",
    state: State::Sunset,
    install: None,
    parser_version: "iflow/1",
    polite: PoliteSignal::TerminateAll,
    skills_folder: ".iflow/skills",
    handle: HandleKind::Prefixed { kind: "session_id", prefix: "session-" },
    config: Kind {
        format: Format::Json,
        skill_file: "assets/iflow_settings.json",
        defaults: nothing,
        enforced: |_: ExecutionMode| nothing(),
        model_key: None,
    },
    launch: launch::launch,
    dialect: parse::dialect,
    lost_session_words: &["session not found", "Session not found"],
    exit_status: no_status,
};

/// Nothing is known to be worth setting.
fn nothing() -> Value {
    json!({})
}
