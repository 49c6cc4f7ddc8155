//! OpenCode: one JSON object per line; the reason of the last step is the only sign of the end.

mod keys;
mod launch;
mod parse;

use serde_json::{Value, json};

use super::adapter::{Adapter, Install, State, no_http_status};
use super::config::{Format, Kind, ModelVariables, nothing};
use super::home::SharedHome;
use super::launch::{PoliteSignal, Streams};
use super::login::Login;
use super::models::{ModelCatalog, ModelListing, ModelNames};
use super::session::HandleKind;
use crate::domain::engine::Engine;
use crate::domain::request::ExecutionMode;

pub(crate) static ADAPTER: Adapter = Adapter {
    engine: Engine::Opencode,
    state: State::Active,
    install: Some(Install {
        package: "opencode-ai",
        version: "1.18.33",
        program: &["{prefix}/node_modules/.bin/opencode"],
    }),
    parser_version: "opencode/1",
    polite: PoliteSignal::TerminateAll,
    streams: Streams::Files,
    skills_folder: ".opencode/skills",
    configured_by: &["opencode.json", "opencode.jsonc"],
    handle: HandleKind::Prefixed { kind: "session_id", prefix: "ses_" },
    config: Kind {
        format: Format::Json,
        skill_file: "assets/opencode_config.json",
        allowed: keys::KEYS,
        defaults,
        home: nothing,
        enforced,
        model_key: "model",
        effort: None,
        operator_file: "config/opencode/opencode.json",
        model_variables: ModelVariables::None,
    },
    login: Login {
        variables: &["OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
        other_keys: true,
        file: "data/opencode/auth.json",
        command: Some("HOME={home} XDG_DATA_HOME={home}/data opencode auth login"),
    },
    home: SharedHome {
        logins: &["data/opencode/auth.json", "data/opencode/mcp-auth.json"],
        settings: &["config"],
        // It installs what its configuration needs beside it.
        caches: &["cache", "config"],
        sessions: &["data/opencode/opencode.db", "data/opencode/opencode.db-shm", "data/opencode/opencode.db-wal"],
    },
    models: ModelCatalog {
        names: ModelNames::WithProvider,
        snapshot: Some(include_str!("models-1.18.33.json")),
        listing: Some(ModelListing { arguments: &["models"], home_variables: launch::home_variables }),
    },
    structured: None,
    endpoints: &[
        "opencode.ai",
        "models.dev",
        "api.anthropic.com",
        "api.openai.com",
        "generativelanguage.googleapis.com",
        "openrouter.ai",
    ],
    has_sandbox: false,
    tools: launch::TOOLS,
    switches: &[
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
    ],
    launch: launch::launch,
    dialect: parse::dialect,
    lost_session_words: &["Session not found"],
    http_status_of_exit: no_http_status,
};

fn defaults() -> Value {
    json!({ "permission": { "*": "allow" } })
}

/// Nothing is shared or updated, and a question is asked only where somebody can answer it.
fn enforced(mode: ExecutionMode) -> Value {
    let question = match mode {
        ExecutionMode::Auto => "deny",
        ExecutionMode::Interactive => "allow",
    };
    json!({ "autoupdate": false, "share": "disabled", "permission": { "question": question } })
}
