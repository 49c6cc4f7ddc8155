//! How opencode is started: configuration in its environment, everything it keeps below its home.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::engine::adapter::Adapter;
use crate::engine::config;
use crate::engine::hidden_keys;
use crate::engine::launch::{LaunchPlan, path_text, words};
use crate::engine::tools::{AllowedTool, ToolControl, Uses};
use crate::engine::turn::{Turn, TurnRefused};

/// Its permissions by the tools of the open format.
pub(crate) const TOOLS: ToolControl = ToolControl::named(
    &[
        ("Bash", &["bash"]),
        ("Edit", &["edit"]),
        ("Glob", &["glob"]),
        ("Grep", &["grep"]),
        ("LS", &["list"]),
        ("MultiEdit", &["edit"]),
        ("Read", &["read", "list"]),
        ("Task", &["task"]),
        ("TodoWrite", &["todowrite"]),
        ("WebFetch", &["webfetch"]),
        ("WebSearch", &["websearch"]),
        ("Write", &["edit"]),
    ],
    Uses::OfTheShell,
);

pub(crate) fn launch(adapter: &Adapter, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
    let mut arguments = words(&["run", "--format", "json", "--auto"]);
    match turn.resume {
        // Without its folder, a session resumed from elsewhere prints nothing and never ends.
        Some(handle) => {
            arguments.extend(["--dir".to_owned(), path_text(turn.run_dir), "--session".to_owned(), handle.to_owned()])
        }
        // A title of our own saves the request opencode makes to find one.
        None => arguments.extend(words(&["--title", "run"])),
    }
    let mut variables = home_variables(turn.engine_home);
    let mut settings = turn.config.clone();
    if let Some(tools) = turn.tools {
        config::lay_over(&mut settings, json!({ "permission": only(tools) }));
    }
    variables.push(("OPENCODE_CONFIG_CONTENT", settings.to_string()));
    let mut files = Vec::new();
    let keys = hidden_keys::names(adapter, turn);
    if !keys.is_empty() {
        // It has no setting for this; the bash that it runs commands with reads this file first.
        let (path, file) = hidden_keys::shell_file(turn.engine_home, &keys, "OPENCODE");
        variables.push(("BASH_ENV", path_text(&path)));
        files.push(file);
    }
    Ok(LaunchPlan { files, ..adapter.plan(turn, arguments, &variables) })
}

/// Permissions for these tools alone. The last one that fits counts, and `*` is the first in any order.
fn only(tools: &[AllowedTool]) -> Map<String, Value> {
    let mut permissions = Map::new();
    permissions.insert("*".into(), "deny".into());
    // Its skills, and files in other folders, which are for the sandbox to keep.
    permissions.extend(["skill", "external_directory"].map(|name| (name.to_owned(), "allow".into())));
    for tool in tools {
        for name in TOOLS.names_of(tool) {
            match (tool.command(), permissions.get_mut(name)) {
                (None, _) | (_, Some(Value::String(_))) => {
                    permissions.insert(name.to_owned(), "allow".into());
                }
                (Some(command), Some(Value::Object(commands))) => commands.extend(allowed(command)),
                (Some(command), _) => {
                    let refused = [("*".to_owned(), Value::from("deny"))];
                    let commands: Map<String, Value> = refused.into_iter().chain(allowed(command)).collect();
                    permissions.insert(name.to_owned(), commands.into());
                }
            }
        }
    }
    permissions
}

fn allowed(command: &str) -> [(String, Value); 2] {
    [command.to_owned(), format!("{command} *")].map(|pattern| (pattern, "allow".into()))
}

/// The variables that keep everything opencode stores below its home.
pub(crate) fn home_variables(home: &Path) -> Vec<(&'static str, String)> {
    let below = |folder: &str| path_text(&home.join(folder));
    vec![
        ("XDG_DATA_HOME", below("data")),
        ("XDG_CONFIG_HOME", below("config")),
        ("XDG_STATE_HOME", below("state")),
        ("XDG_CACHE_HOME", below("cache")),
    ]
}
