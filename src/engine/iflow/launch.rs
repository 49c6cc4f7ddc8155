//! How iflow is started: the prompt is an argument, since it does not read standard input.

use serde_json::json;

use crate::engine::adapter::Adapter;
use crate::engine::config;
use crate::engine::launch::{ConfigFile, LaunchPlan, words};
use crate::engine::tools::{Beyond, ToolControl, Uses};
use crate::engine::turn::{Turn, TurnRefused};

/// Its tools by the names of the open format.
pub(crate) const TOOLS: ToolControl = ToolControl::named(
    &[
        ("Bash", &["run_shell_command"]),
        ("Edit", &["replace"]),
        ("Glob", &["glob"]),
        ("Grep", &["search_file_content"]),
        ("LS", &["list_directory"]),
        ("MultiEdit", &["multi_edit"]),
        ("Read", &["read_file", "read_many_files", "list_directory"]),
        ("Task", &["task"]),
        ("TodoWrite", &["todo_write", "todo_read"]),
        ("WebFetch", &["web_fetch"]),
        ("WebSearch", &["web_search"]),
        ("Write", &["write_file"]),
    ],
    Uses::OfTheShell,
)
.but(Beyond::Untried);
/// The tool by which it reads its skills. A list without any name would not count.
const SKILL: &str = "Skill";
/// Longest prompt; one argument can hold no more than 128 KiB.
const PROMPT_MAX: usize = 120 * 1024;

pub(crate) fn launch(adapter: &Adapter, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
    if turn.prompt.len() > PROMPT_MAX {
        let reason = format!("{} takes at most {PROMPT_MAX} bytes", adapter.name());
        return Err(TurnRefused::Config { key: "prompt".to_owned(), reason });
    }
    let mut arguments = Vec::new();
    if let Some(model) = adapter.model(turn) {
        arguments.extend(["-m".to_owned(), model.to_owned()]);
    }
    arguments.extend(words(&["--yolo"]));
    if let Some(handle) = turn.resume {
        arguments.extend(["-r".to_owned(), handle.to_owned()]);
    }
    // One word with its flag, so that a prompt that begins with a dash is not read as a flag.
    arguments.push(format!("--prompt={}", turn.prompt));
    let mut plan = adapter.plan(turn, arguments, &[]);
    plan.launch.stdin = Vec::new();
    if let Some(prompt) = plan.shown_argv.last_mut() {
        // The prompt itself is in logs/prompt.txt.
        *prompt = "--prompt=…".to_owned();
    }
    let mut settings = turn.config.clone();
    if let Some(tools) = turn.tools {
        let core = TOOLS.with_commands(tools).chain([SKILL.to_owned()]);
        config::lay_over(&mut settings, json!({ "coreTools": core.collect::<Vec<_>>() }));
    }
    if settings.as_object().is_some_and(|config| !config.is_empty()) {
        plan.files.push(ConfigFile::of_run(turn.run_dir.join(".iflow/settings.json"), &settings));
    }
    Ok(plan)
}
