//! Qwen Code: claude's language from a CLI that descends from gemini's.

mod launch;

use serde_json::{Value, json};

use super::adapter::{Adapter, HandleKind, Install, State, no_status};
use super::config::{Format, Kind};
use super::launch::PoliteSignal;
use super::messages::{self, Idiom};
use crate::domain::request::ExecutionMode;

/// The engine.
pub static ADAPTER: Adapter = Adapter {
    name: "qwen",
    state: State::Active,
    install: Some(Install {
        package: "@qwen-code/qwen-code",
        version: "0.24.4",
        // Its launcher starts a second node and hands on no signal.
        program: &["node", "{prefix}/node_modules/@qwen-code/qwen-code/cli.js"],
    }),
    parser_version: "qwen/1",
    polite: PoliteSignal::TerminateAll,
    skills_folder: ".qwen/skills",
    handle: HandleKind::Uuid { kind: "session_id" },
    config: Kind { format: Format::Json, skill_file: "assets/qwen_settings.json", defaults, enforced, model_key: None },
    launch: launch::launch,
    dialect: |usage_before| messages::dialect(IDIOM, usage_before),
    lost_session_words: &["No saved session found"],
    exit_status: no_status,
};

const IDIOM: Idiom = Idiom { shell: "run_shell_command", structured: "structured_result", tokens_of_session: true };

/// Qwen asks seven times by itself. With retries of its own on top, a service that takes no more requests would
/// keep a run silent for up to an hour.
fn defaults() -> Value {
    json!({
        "security": { "auth": { "selectedType": "openai" } },
        "model": { "generationConfig": { "maxRetries": 0 } },
    })
}

/// No call home, no update, and no memory: it costs a request after every answer.
fn enforced(_: ExecutionMode) -> Value {
    json!({
        "general": { "disableAutoUpdate": true, "disableUpdateNag": true },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "memory": { "enableManagedAutoMemory": false, "enableManagedAutoDream": false, "enableAutoSkill": false },
    })
}
