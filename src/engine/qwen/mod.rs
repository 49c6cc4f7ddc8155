//! Qwen Code: prints the same messages as claude, and takes the settings of gemini, from which it was derived.

mod keys;
mod launch;

use serde_json::{Value, json};

use super::adapter::{Adapter, Install, State, no_http_status};
use super::config::{Format, Kind, ModelVariables};
use super::home::SharedHome;
use super::launch::{PoliteSignal, Streams};
use super::login::Login;
use super::messages::{self, Idiom};
use super::models::{ModelCatalog, ModelNames};
use super::session::HandleKind;
use super::structured::Structured;
use super::tool_schema;
use crate::domain::engine::Engine;
use crate::domain::request::ExecutionMode;

pub(crate) static ADAPTER: Adapter = Adapter {
    engine: Engine::Qwen,
    state: State::Active,
    install: Some(Install {
        package: "@qwen-code/qwen-code",
        version: "0.24.4",
        // Its launcher starts a second node and does not forward signals.
        program: &["node", "{prefix}/node_modules/@qwen-code/qwen-code/cli.js"],
    }),
    parser_version: "qwen/1",
    polite: PoliteSignal::TerminateAll,
    streams: Streams::Files,
    skills_folder: ".qwen/skills",
    configured_by: &[".env"],
    handle: HandleKind::Uuid { kind: "session_id" },
    config: Kind {
        format: Format::Json,
        skill_file: "assets/qwen_settings.json",
        allowed: keys::KEYS,
        defaults,
        home,
        enforced,
        model_key: "model.name",
        effort: None,
        operator_file: ".qwen/settings.json",
        model_variables: ModelVariables::BelowTheFile(&["OPENAI_MODEL", "QWEN_MODEL"]),
    },
    login: Login {
        variables: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY"],
        other_keys: false,
        file: ".qwen/oauth_creds.json",
        command: Some("QWEN_HOME={home}/.qwen qwen"),
    },
    home: SharedHome {
        logins: &[".qwen/oauth_creds.json", ".qwen/mcp-oauth-tokens.json"],
        settings: &[
            ".env",
            ".qwen/.env",
            ".qwen/QWEN.md",
            ".qwen/agents",
            ".qwen/commands",
            ".qwen/extensions",
            ".qwen/settings.json",
            ".qwen/skills",
        ],
        caches: &[],
        sessions: &[".qwen/projects/*/chats"],
    },
    models: ModelCatalog {
        names: ModelNames::Plain,
        snapshot: Some(include_str!("models-0.24.4.json")),
        listing: None,
    },
    structured: Some(Structured { tool: Some("structured_output"), schema: tool_schema::for_tool }),
    endpoints: &["dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "chat.qwen.ai", "portal.qwen.ai"],
    has_sandbox: false,
    tools: launch::TOOLS,
    switches: &[("QWEN_CODE_NO_RELAUNCH", "true"), ("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1")],
    launch: launch::launch,
    dialect: |usage_before| messages::dialect(IDIOM, usage_before),
    lost_session_words: &["No saved session found"],
    http_status_of_exit: no_http_status,
};

const IDIOM: Idiom = Idiom {
    shell: "run_shell_command",
    structured: "structured_result",
    in_plain_text: Some("Model produced plain text instead of calling the structured_output tool"),
    tokens_of_session: true,
};

/// Qwen sends a failed request up to seven times. With the retries of its library as well, a service that takes no
/// more requests would keep a run silent for up to an hour.
fn defaults() -> Value {
    json!({ "model": { "generationConfig": { "maxRetries": 0 } } })
}

/// The way to log in is the operator's choice, so no run's settings lie over it.
fn home() -> Value {
    json!({ "security": { "auth": { "selectedType": "openai" } } })
}

/// No telemetry, no update, and no memory: memory costs a request after every answer.
fn enforced(_: ExecutionMode) -> Value {
    json!({
        "general": { "disableAutoUpdate": true, "disableUpdateNag": true },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "memory": { "enableManagedAutoMemory": false, "enableManagedAutoDream": false, "enableAutoSkill": false },
    })
}
