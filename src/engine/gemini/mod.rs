//! Gemini CLI: one JSON object per line, messages in parts, an exit code made from an HTTP status.

mod keys;
mod launch;
mod parse;

use serde_json::{Value, json};

use super::adapter::{Adapter, Install, State};
use super::config::{Format, Kind, ModelVariables, nothing};
use super::home::SharedHome;
use super::launch::{PoliteSignal, Streams};
use super::login::Login;
use super::models::{ModelCatalog, ModelNames};
use super::session::HandleKind;
use crate::domain::engine::Engine;
use crate::domain::request::ExecutionMode;

pub(crate) static ADAPTER: Adapter = Adapter {
    engine: Engine::Gemini,
    state: State::Active,
    install: Some(Install {
        package: "@google/gemini-cli",
        version: "0.61.0",
        program: &["{prefix}/node_modules/.bin/gemini"],
    }),
    parser_version: "gemini/1",
    polite: PoliteSignal::TerminateAll,
    streams: Streams::Files,
    skills_folder: ".gemini/skills",
    configured_by: &[".env"],
    handle: HandleKind::Uuid { kind: "session_id" },
    config: Kind {
        format: Format::Json,
        skill_file: "assets/gemini_settings.json",
        allowed: keys::KEYS,
        defaults,
        home: nothing,
        enforced,
        model_key: "model.name",
        effort: None,
        operator_file: ".gemini/settings.json",
        model_variables: ModelVariables::AboveTheFile(&["GEMINI_MODEL"]),
    },
    login: Login {
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"],
        other_keys: false,
        file: ".gemini/oauth_creds.json",
        command: Some("GEMINI_CLI_HOME={home} gemini"),
    },
    home: SharedHome {
        logins: &[".gemini/oauth_creds.json", ".gemini/gemini-credentials.json", ".gemini/mcp-oauth-tokens.json"],
        settings: &[
            ".env",
            ".gemini/.env",
            ".gemini/GEMINI.md",
            ".gemini/agents",
            ".gemini/commands",
            ".gemini/extensions",
            ".gemini/google_accounts.json",
            ".gemini/policies",
            ".gemini/settings.json",
            ".gemini/skills",
        ],
        caches: &[],
        sessions: &[".gemini/projects.json", ".gemini/tmp/*/.project_root", ".gemini/tmp/*/chats"],
    },
    models: ModelCatalog {
        names: ModelNames::Plain,
        snapshot: Some(include_str!("models-0.61.0.json")),
        listing: None,
    },
    structured: None,
    endpoints: &[
        "generativelanguage.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
        "aiplatform.googleapis.com",
    ],
    has_sandbox: false,
    tools: launch::TOOLS,
    // One process instead of two: less memory, and signals reach the one that works.
    // The settings of an untrusted folder are not read; the flag comes too late for them, and the home may ask for trust.
    switches: &[("GEMINI_CLI_NO_RELAUNCH", "true"), ("GEMINI_CLI_TRUST_WORKSPACE", "true")],
    launch: launch::launch,
    dialect: parse::dialect,
    lost_session_words: &["Error resuming session"],
    http_status_of_exit,
};

fn defaults() -> Value {
    json!({ "general": { "maxAttempts": 3 }, "experimental": { "skills": true } })
}

/// No telemetry, no update, no question whether the folder is trusted.
fn enforced(_: ExecutionMode) -> Value {
    json!({
        "security": { "folderTrust": { "enabled": false } },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
    })
}

/// Gemini exits with the HTTP status, of which the system keeps the lowest eight bits; 41 is its own code for no login.
fn http_status_of_exit(exit_code: i32) -> Option<u16> {
    match u16::try_from(exit_code).ok()? {
        41 => Some(401),
        low @ 144..=255 => Some(low + 256),
        _ => None,
    }
}
