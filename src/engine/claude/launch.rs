//! How claude is started: an allow-list of tools, the prompt on standard input, no request but to its model.

use serde_json::Value;

use crate::engine::adapter::Adapter;
use crate::engine::hidden_keys;
use crate::engine::launch::{ConfigFile, LaunchPlan, path_text, words};
use crate::engine::tool_schema;
use crate::engine::tools::AllowedTool;
use crate::engine::turn::{Turn, TurnRefused};

/// Tools that claude uses without asking. The flag that allows every tool is refused when it runs as root.
const TOOLS: &str = "Bash,Edit,Write,Read,Glob,Grep,Skill,Task,WebFetch";
/// The tool by which it reads its skills.
const SKILL: &str = "Skill";
/// Longest schema on the command line; one argument can hold no more than 128 KiB.
const SCHEMA_MAX: usize = 100 * 1024;

/// The schema, unless it is longer than an argument may be.
pub(crate) fn schema(schema: &Value) -> Option<Value> {
    tool_schema::for_tool(schema).filter(|schema| schema.to_string().len() <= SCHEMA_MAX)
}

/// No other tools are there, and of these nothing is done that would have to be asked for: nobody answers.
fn only(tools: &[AllowedTool]) -> Vec<String> {
    let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).chain([SKILL]).collect();
    names.sort_unstable();
    names.dedup();
    let mut arguments = words(&["--permission-mode", "default", "--tools"]);
    arguments.push(names.join(","));
    arguments.push("--allowedTools".to_owned());
    arguments.extend(tools.iter().map(AllowedTool::written).chain([SKILL.to_owned()]));
    arguments
}

pub(crate) fn launch(adapter: &Adapter, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
    let mut arguments = words(&["-p", "--output-format", "stream-json", "--verbose"]);
    match turn.tools {
        None => arguments.extend(words(&["--permission-mode", "acceptEdits", "--allowedTools", TOOLS])),
        Some(tools) => arguments.extend(only(tools)),
    }
    if let Some(model) = adapter.model(turn) {
        arguments.extend(["--model".to_owned(), model.to_owned()]);
    }
    let mut files = Vec::new();
    if turn.config.as_object().is_some_and(|config| !config.is_empty()) {
        let path = turn.run_dir.join(".claude/settings.json");
        arguments.extend(["--settings".to_owned(), path_text(&path)]);
        files.push(ConfigFile::of_run(path, turn.config));
    }
    if let Some(schema) = turn.output_schema.and_then(|schema| adapter.native_schema(turn.mode, schema.value)) {
        arguments.extend(["--json-schema".to_owned(), schema.to_string()]);
    }
    if let Some(handle) = turn.resume {
        arguments.extend(["--resume".to_owned(), handle.to_owned()]);
    }
    let mut variables = vec![("CLAUDE_CONFIG_DIR", path_text(&turn.engine_home.join("cfg")))];
    // Else it writes to a folder that all runs share.
    variables.push(("CLAUDE_CODE_TMPDIR", path_text(turn.tmp)));
    let keys = hidden_keys::names(adapter, turn);
    if !keys.is_empty() {
        let (path, file) = hidden_keys::shell_file(turn.engine_home, &keys, "CLAUDECODE");
        variables.push(("CLAUDE_ENV_FILE", path_text(&path)));
        files.push(file);
    }
    Ok(LaunchPlan { files, ..adapter.plan(turn, arguments, &variables) })
}
