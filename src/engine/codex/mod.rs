//! Codex: one JSON object per line, sessions called threads, a sandbox of its own.

mod keys;
mod launch;
mod parse;
pub(crate) mod sample;
mod schema;
mod tools;

use serde_json::{Value, json};

use super::adapter::{Adapter, Install, State, no_http_status};
use super::config::{Effort, Format, Kind, ModelVariables, nothing};
use super::home::SharedHome;
use super::launch::{PoliteSignal, Streams};
use super::login::Login;
use super::models::{ModelCatalog, ModelNames};
use super::session::HandleKind;
use super::structured::Structured;
use crate::domain::engine::Engine;
use crate::domain::request::ExecutionMode;

pub(crate) static ADAPTER: Adapter = Adapter {
    engine: Engine::Codex,
    state: State::Active,
    install: Some(Install {
        package: "@openai/codex",
        version: "0.166.0",
        // The native program, not its node wrapper: signals reach it, and it starts with less memory.
        program: &["{prefix}/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"],
    }),
    parser_version: "codex/1",
    // The only signal after which it also ends its shell.
    polite: PoliteSignal::Interrupt,
    // It waits until its pipe has taken what it writes.
    streams: Streams::Pipes,
    skills_folder: ".codex/skills",
    configured_by: &[],
    handle: HandleKind::Uuid { kind: "thread_id" },
    config: Kind {
        format: Format::Toml,
        skill_file: "assets/codex_config.toml",
        allowed: keys::KEYS,
        defaults,
        home: nothing,
        enforced,
        model_key: "model",
        effort: Some(Effort { key: "model_reasoning_effort", in_model: true, variable: None }),
        operator_file: ".codex/config.toml",
        model_variables: ModelVariables::None,
    },
    login: Login {
        variables: &["OPENAI_API_KEY", "CODEX_API_KEY"],
        other_keys: true,
        file: ".codex/auth.json",
        command: Some("CODEX_HOME={home}/.codex codex login"),
    },
    home: SharedHome {
        logins: &[".codex/auth.json"],
        settings: &[
            ".codex/config.toml",
            ".codex/AGENTS.md",
            ".codex/AGENTS.override.md",
            ".codex/.env",
            ".codex/agents",
            ".codex/hooks.json",
            ".codex/prompts",
            ".codex/rules",
            ".codex/skills",
        ],
        caches: &[],
        sessions: &[".codex/sessions"],
    },
    models: ModelCatalog {
        names: ModelNames::WithEffort,
        snapshot: Some(include_str!("models-0.166.0.json")),
        listing: None,
    },
    structured: Some(Structured { tool: None, schema: schema::strict }),
    endpoints: &["api.openai.com", "auth.openai.com", "chatgpt.com"],
    has_sandbox: true,
    tools: tools::TOOLS,
    // How long it waits before it sends a request again is told in its log alone.
    switches: &[("RUST_LOG", "error,codex_core::responses_retry=warn")],
    launch: launch::launch,
    dialect: parse::dialect,
    lost_session_words: &["no rollout found for thread id", "thread/resume failed"],
    http_status_of_exit: no_http_status,
};

fn defaults() -> Value {
    json!({ "skills": { "bundled": { "enabled": false } } })
}

/// No question to a terminal, no request at the start but to the model, no endless retries, and no server of tools that a skill's
/// package names: it would run outside the sandbox and stay in the shared home.
fn enforced(_: ExecutionMode) -> Value {
    json!({
        "approval_policy": "never",
        "check_for_update_on_startup": false,
        "analytics": { "enabled": false },
        "features": {
            "plugins": false,
            "apps": false,
            "unbounded_connection_retries": false,
            "skill_mcp_dependency_install": false,
            // It would keep the environment, with its keys, in a file.
            "shell_snapshot": false,
        },
    })
}
