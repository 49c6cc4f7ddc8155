//! Codex: OpenAI's CLI, one JSON object per line, sessions called threads.

mod launch;
mod parse;
mod schema;

use serde_json::{Value, json};

use super::adapter::{Adapter, HandleKind, Install, State, no_status};
use super::config::{Format, Kind};
use super::launch::PoliteSignal;
use crate::domain::request::ExecutionMode;

/// The engine.
pub static ADAPTER: Adapter = Adapter {
    name: "codex",
    state: State::Active,
    install: Some(Install {
        package: "@openai/codex",
        version: "0.166.0",
        // The native program, not its node wrapper: signals reach it, and it starts with less memory.
        program: &["{prefix}/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"],
    }),
    parser_version: "codex/1",
    // The one signal after which it takes its shell along.
    polite: PoliteSignal::Interrupt,
    skills_folder: ".codex/skills",
    handle: HandleKind::Uuid { kind: "thread_id" },
    config: Kind {
        format: Format::Toml,
        skill_file: "assets/codex_config.toml",
        defaults,
        enforced,
        model_key: Some("model"),
    },
    launch: launch::launch,
    dialect: parse::dialect,
    lost_session_words: &["no rollout found for thread id", "thread/resume failed"],
    exit_status: no_status,
};

fn defaults() -> Value {
    json!({ "skills": { "bundled": { "enabled": false } } })
}

/// No question to a terminal, no call home at the start, no retrying for ever.
fn enforced(_: ExecutionMode) -> Value {
    json!({
        "approval_policy": "never",
        "check_for_update_on_startup": false,
        "analytics": { "enabled": false },
        "features": { "plugins": false, "apps": false, "unbounded_connection_retries": false },
    })
}
