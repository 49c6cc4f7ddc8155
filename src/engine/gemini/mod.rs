//! Gemini CLI: one JSON object per line, messages in parts, an exit code that hides an HTTP status.

mod launch;
mod parse;

use serde_json::{Value, json};

use super::adapter::{Adapter, HandleKind, Install, State};
use super::config::{Format, Kind};
use super::launch::PoliteSignal;
use crate::domain::request::ExecutionMode;

/// The engine.
pub static ADAPTER: Adapter = Adapter {
    name: "gemini",
    state: State::Active,
    install: Some(Install {
        package: "@google/gemini-cli",
        version: "0.61.0",
        program: &["{prefix}/node_modules/.bin/gemini"],
    }),
    parser_version: "gemini/1",
    polite: PoliteSignal::TerminateAll,
    skills_folder: ".gemini/skills",
    handle: HandleKind::Uuid { kind: "session_id" },
    config: Kind {
        format: Format::Json,
        skill_file: "assets/gemini_settings.json",
        defaults,
        enforced,
        model_key: None,
    },
    launch: launch::launch,
    dialect: parse::dialect,
    lost_session_words: &["Error resuming session"],
    exit_status,
};

fn defaults() -> Value {
    json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "general": { "maxAttempts": 3 },
    })
}

/// No call home, no update, no question whether the folder is trusted.
fn enforced(_: ExecutionMode) -> Value {
    json!({
        "security": { "folderTrust": { "enabled": false } },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
    })
}

/// Gemini exits with the HTTP status, of which the system keeps the lowest eight bits; 41 is its own word for no login.
fn exit_status(exit_code: i32) -> Option<u16> {
    match u16::try_from(exit_code).ok()? {
        41 => Some(401),
        low @ 144..=255 => Some(low + 256),
        _ => None,
    }
}
