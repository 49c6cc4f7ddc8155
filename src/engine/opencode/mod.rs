//! OpenCode: one JSON object per line, no word at the end but the last step's reason.

mod launch;
mod parse;

use serde_json::{Value, json};

use super::adapter::{Adapter, HandleKind, Install, State, no_status};
use super::config::{Format, Kind};
use super::launch::PoliteSignal;
use crate::domain::request::ExecutionMode;

/// The engine.
pub static ADAPTER: Adapter = Adapter {
    name: "opencode",
    state: State::Active,
    install: Some(Install {
        package: "opencode-ai",
        version: "1.18.33",
        program: &["{prefix}/node_modules/.bin/opencode"],
    }),
    parser_version: "opencode/1",
    polite: PoliteSignal::TerminateAll,
    skills_folder: ".opencode/skills",
    handle: HandleKind::Prefixed { kind: "session_id", prefix: "ses_" },
    config: Kind {
        format: Format::Json,
        skill_file: "assets/opencode_config.json",
        defaults,
        enforced,
        model_key: Some("model"),
    },
    launch: launch::launch,
    dialect: parse::dialect,
    lost_session_words: &["Session not found"],
    exit_status: no_status,
};

fn defaults() -> Value {
    json!({ "permission": { "*": "allow" } })
}

/// Nothing is shared or updated, and a question is put only where somebody can answer it.
fn enforced(mode: ExecutionMode) -> Value {
    let question = match mode {
        ExecutionMode::Auto => "deny",
        ExecutionMode::Interactive => "allow",
    };
    json!({ "autoupdate": false, "share": "disabled", "permission": { "question": question } })
}
