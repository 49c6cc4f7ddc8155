//! How qwen is started: settings in the run's folder, its own script under node, prompt on standard input.

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
        ("Edit", &["edit"]),
        ("Glob", &["glob"]),
        ("Grep", &["grep_search"]),
        ("LS", &["list_directory"]),
        ("MultiEdit", &["edit"]),
        ("NotebookEdit", &["notebook_edit"]),
        ("Read", &["read_file", "list_directory"]),
        ("TodoWrite", &["todo_write"]),
        ("WebFetch", &["web_fetch"]),
        ("WebSearch", &["web_search"]),
        ("Write", &["write_file"]),
    ],
    Uses::Never,
);
/// The tool by which it reads its skills. A list without any name would not count.
const SKILL: &str = "skill";

pub(crate) fn launch(adapter: &Adapter, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
    let mut arguments = words(&["--output-format", "stream-json", "--yolo"]);
    let home =
        ConfigFile::of_home(turn.engine_home.join(".qwen/settings.json"), &config::base(&adapter.config, turn.mode));
    let mut settings = turn.config.clone();
    if let Some(tools) = turn.tools {
        let core: Vec<&str> = tools.iter().flat_map(|tool| TOOLS.names_of(tool)).chain([SKILL]).collect();
        config::lay_over(&mut settings, json!({ "tools": { "core": core } }));
    }
    let run = ConfigFile::of_run(turn.run_dir.join(".qwen/settings.json"), &settings);
    let mut files = vec![home, run];
    // The settings may name a model too: the flag stands above them and above every variable.
    if let Some(model) = adapter.model(turn) {
        arguments.extend(["--model".to_owned(), model.to_owned()]);
    }
    if let Some(schema) = turn.output_schema
        && let Some(known) = adapter.native_schema(turn.mode, schema.value)
    {
        arguments.extend(["--json-schema".to_owned(), format!("@{}", path_text(schema.path))]);
        files.push(ConfigFile::of_run(schema.path.to_owned(), &known));
    }
    if let Some(handle) = turn.resume {
        arguments.extend(["--resume".to_owned(), handle.to_owned()]);
    }
    let mut variables = vec![("QWEN_HOME", path_text(&turn.engine_home.join(".qwen")))];
    let keys = hidden_keys::names(adapter, turn);
    if !keys.is_empty() {
        // It has no setting for this; the bash that it runs commands with reads this file first.
        let (path, file) = hidden_keys::shell_file(turn.engine_home, &keys, "QWEN_CODE");
        variables.push(("BASH_ENV", path_text(&path)));
        files.push(file);
    }
    Ok(LaunchPlan { files, ..adapter.plan(turn, arguments, &variables) })
}
