//! Claude Code: one JSON object per line, tools by an allow-list, its own structured output.

mod keys;
mod launch;

use super::adapter::{Adapter, Install, State, no_http_status};
use super::config::{Effort, Format, Kind, ModelVariables, nothing};
use super::home::SharedHome;
use super::launch::{PoliteSignal, Streams};
use super::login::Login;
use super::messages::{self, Idiom};
use super::models::{ModelCatalog, ModelNames};
use super::session::HandleKind;
use super::structured::Structured;
use super::tools::ToolControl;
use crate::domain::engine::Engine;
use crate::domain::request::ExecutionMode;

pub(crate) static ADAPTER: Adapter = Adapter {
    engine: Engine::Claude,
    state: State::Active,
    install: Some(Install {
        package: "@anthropic-ai/claude-code",
        version: "2.1.325",
        program: &["{prefix}/node_modules/.bin/claude"],
    }),
    parser_version: "claude/1",
    polite: PoliteSignal::TerminateAll,
    streams: Streams::Files,
    skills_folder: ".claude/skills",
    configured_by: &[".mcp.json"],
    handle: HandleKind::Uuid { kind: "session_id" },
    config: Kind {
        format: Format::Json,
        skill_file: "assets/claude_settings.json",
        allowed: keys::KEYS,
        defaults: nothing,
        home: nothing,
        enforced: |_: ExecutionMode| nothing(),
        model_key: "model",
        effort: Some(Effort { key: "effortLevel", in_model: false, variable: Some("CLAUDE_CODE_EFFORT_LEVEL") }),
        operator_file: "cfg/settings.json",
        model_variables: ModelVariables::AboveTheFile(&["ANTHROPIC_MODEL"]),
    },
    login: Login {
        variables: &["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"],
        other_keys: false,
        file: "cfg/.credentials.json",
        command: Some("CLAUDE_CONFIG_DIR={home}/cfg claude"),
    },
    home: SharedHome {
        logins: &["cfg/.credentials.json"],
        settings: &[
            "cfg/.claude.json",
            "cfg/CLAUDE.md",
            "cfg/agents",
            "cfg/commands",
            "cfg/output-styles",
            "cfg/plugins",
            "cfg/rules",
            "cfg/settings.json",
            "cfg/skills",
        ],
        caches: &[],
        sessions: &["cfg/projects"],
    },
    models: ModelCatalog {
        names: ModelNames::Plain,
        snapshot: Some(include_str!("models-2.1.325.json")),
        listing: None,
    },
    structured: Some(Structured { tool: Some("StructuredOutput"), schema: launch::schema }),
    endpoints: &["api.anthropic.com", "console.anthropic.com", "platform.claude.com"],
    has_sandbox: false,
    tools: ToolControl::OPEN_FORMAT,
    switches: &[
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "3"),
    ],
    launch: launch::launch,
    dialect: |usage_before| messages::dialect(IDIOM, usage_before),
    lost_session_words: &["No conversation found with session ID", "--resume requires a valid session ID"],
    http_status_of_exit: no_http_status,
};

const IDIOM: Idiom =
    Idiom { shell: "Bash", structured: "structured_output", in_plain_text: None, tokens_of_session: false };
