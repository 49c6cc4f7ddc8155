//! Claude Code: one JSON object per line, tools by an allow-list, its own structured output.

mod launch;

use serde_json::{Value, json};

use super::adapter::{Adapter, HandleKind, Install, State, no_status};
use super::config::{Format, Kind};
use super::launch::PoliteSignal;
use super::messages::{self, Idiom};
use crate::domain::request::ExecutionMode;

/// The engine.
pub static ADAPTER: Adapter = Adapter {
    name: "claude",
    state: State::Active,
    install: Some(Install {
        package: "@anthropic-ai/claude-code",
        version: "2.1.325",
        program: &["{prefix}/node_modules/.bin/claude"],
    }),
    parser_version: "claude/1",
    polite: PoliteSignal::TerminateAll,
    skills_folder: ".claude/skills",
    handle: HandleKind::Uuid { kind: "session_id" },
    config: Kind {
        format: Format::Json,
        skill_file: "assets/claude_settings.json",
        defaults: nothing,
        enforced: |_: ExecutionMode| nothing(),
        model_key: None,
    },
    launch: launch::launch,
    dialect: |usage_before| messages::dialect(IDIOM, usage_before),
    lost_session_words: &["No conversation found with session ID", "--resume requires a valid session ID"],
    exit_status: no_status,
};

const IDIOM: Idiom = Idiom { shell: "Bash", structured: "structured_output", tokens_of_session: false };

/// What holds for every run stands on its command line and in its environment.
fn nothing() -> Value {
    json!({})
}
