//! iFlow: its service is closed since April 2026. It prints plain text, and a block with the session's id.

mod keys;
mod launch;
mod parse;

use super::adapter::{Adapter, State, no_http_status};
use super::config::{Format, Kind, ModelVariables, nothing};
use super::home::SharedHome;
use super::launch::{PoliteSignal, Streams};
use super::login::Login;
use super::models::{ModelCatalog, ModelNames};
use super::session::HandleKind;
use crate::domain::engine::Engine;
use crate::domain::request::ExecutionMode;

pub(crate) static ADAPTER: Adapter = Adapter {
    engine: Engine::Iflow,
    state: State::Sunset,
    install: None,
    parser_version: "iflow/1",
    polite: PoliteSignal::TerminateAll,
    streams: Streams::Files,
    skills_folder: ".iflow/skills",
    configured_by: &[".env"],
    handle: HandleKind::Prefixed { kind: "session_id", prefix: "session-" },
    config: Kind {
        format: Format::Json,
        skill_file: "assets/iflow_settings.json",
        allowed: keys::KEYS,
        defaults: nothing,
        home: nothing,
        enforced: |_: ExecutionMode| nothing(),
        model_key: "modelName",
        effort: None,
        operator_file: ".iflow/settings.json",
        model_variables: ModelVariables::None,
    },
    login: Login { variables: &["IFLOW_API_KEY"], other_keys: true, file: ".iflow/oauth_creds.json", command: None },
    home: SharedHome {
        logins: &[".iflow/oauth_creds.json", ".iflow/iflow_accounts.json"],
        settings: &[".iflow/IFLOW.md", ".iflow/agents", ".iflow/commands", ".iflow/settings.json"],
        caches: &[],
        sessions: &[".iflow/projects", ".iflow/sessions", ".iflow/tmp"],
    },
    models: ModelCatalog { names: ModelNames::Plain, snapshot: None, listing: None },
    structured: None,
    endpoints: &["apis.iflow.cn", "iflow.cn"],
    has_sandbox: false,
    tools: launch::TOOLS,
    switches: &[],
    launch: launch::launch,
    dialect: parse::dialect,
    lost_session_words: &["session not found", "Session not found"],
    http_status_of_exit: no_http_status,
};
