//! How gemini is started: settings in the run's folder, a login choice in its home, prompt on standard input.

use serde_json::json;

use crate::engine::adapter::Adapter;
use crate::engine::config;
use crate::engine::hidden_keys;
use crate::engine::launch::{ConfigFile, LaunchPlan, path_text, words};
use crate::engine::tools::{ToolControl, Uses};
use crate::engine::turn::{Turn, TurnRefused};

/// Its tools by the names of the open format.
pub(crate) const TOOLS: ToolControl = ToolControl::named(
    &[
        ("Bash", &["run_shell_command"]),
        ("Edit", &["replace"]),
        ("Glob", &["glob"]),
        ("Grep", &["grep_search"]),
        ("LS", &["list_directory"]),
        ("MultiEdit", &["replace"]),
        ("Read", &["read_file", "read_many_files", "list_directory"]),
        ("Task", &["invoke_agent"]),
        ("TodoWrite", &["write_todos"]),
        ("WebFetch", &["web_fetch"]),
        ("WebSearch", &["google_web_search"]),
        ("Write", &["write_file"]),
    ],
    Uses::OfTheShell,
);
/// The tool by which it reads its skills.
const SKILL: &str = "activate_skill";

pub(crate) fn launch(adapter: &Adapter, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
    let mut arguments = words(&["--output-format", "stream-json", "--yolo", "--skip-trust"]);
    if let Some(model) = adapter.model(turn) {
        arguments.extend(["-m".to_owned(), model.to_owned()]);
    }
    if let Some(handle) = turn.resume {
        arguments.extend(["--resume".to_owned(), handle.to_owned()]);
    }
    let variables = [("GEMINI_CLI_HOME", path_text(turn.engine_home))];
    // The way to log in is the operator's choice: the run's settings say nothing of it, and those of the home only if he has none.
    let mut base = config::base(&adapter.config, turn.mode);
    config::lay_over(&mut base, json!({ "security": { "auth": { "selectedType": login(turn) } } }));
    let home = ConfigFile::of_home(turn.engine_home.join(".gemini/settings.json"), &base);
    let mut settings = turn.config.clone();
    let hidden = hidden_keys::names(adapter, turn);
    if !hidden.is_empty() {
        // Without a list of what is allowed, every variable with TOKEN or the like in its name would be hidden.
        let passed = turn.env.iter().map(|(name, _)| name.as_str());
        let shown: Vec<&str> = passed.filter(|name| !hidden.contains(name)).collect();
        let redaction = json!({ "enabled": true, "blocked": hidden, "allowed": shown });
        config::lay_over(&mut settings, json!({ "security": { "environmentVariableRedaction": redaction } }));
    }
    if let Some(tools) = turn.tools {
        let core: Vec<String> = TOOLS.with_commands(tools).chain([SKILL.to_owned()]).collect();
        config::lay_over(&mut settings, json!({ "tools": { "core": core } }));
    }
    let run = ConfigFile::of_run(turn.run_dir.join(".gemini/settings.json"), &settings);
    Ok(LaunchPlan { files: vec![home, run], ..adapter.plan(turn, arguments, &variables) })
}

/// How gemini logs in where its settings do not say: by what it is passed, else by a login in its home. Without a choice it does not start.
fn login(turn: &Turn<'_>) -> &'static str {
    let passed = |name: &str| turn.env.iter().find(|(passed, _)| passed == name).map(|(_, value)| value.as_str());
    match (passed("GOOGLE_GENAI_USE_GCA"), passed("GOOGLE_GENAI_USE_VERTEXAI"), passed("GEMINI_API_KEY")) {
        (Some("true"), _, _) => "oauth-personal",
        (_, Some("true"), _) => "vertex-ai",
        (_, _, None) if turn.has_login => "oauth-personal",
        (_, _, Some(_) | None) => "gemini-api-key",
    }
}
