//! How codex is started: the prompt on standard input, the configuration as overrides that change no shared file.

use serde_json::{Map, Value, json};

use super::tools;
use crate::domain::plain_json::Plain;
use crate::engine::adapter::Adapter;
use crate::engine::config::lay_over;
use crate::engine::hidden_keys;
use crate::engine::launch::{ConfigFile, LaunchPlan, path_text, words};
use crate::engine::tools::{change_files, run_commands};
use crate::engine::turn::{Turn, TurnRefused};

pub(crate) fn launch(adapter: &Adapter, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
    let mut files = Vec::new();
    if let Some(schema) = turn.output_schema
        && let Some(strict) = adapter.native_schema(turn.mode, schema.value)
    {
        files.push(ConfigFile::of_run(schema.path.to_owned(), &strict));
    }
    let schema = files.first().map(|file| path_text(&file.path));
    let home = turn.engine_home.join(".codex");
    // A missing home is an error to codex, even when it has nothing to read from it.
    files.push(ConfigFile { path: home.join("config.toml"), bytes: Vec::new(), keep_existing: true });
    let variables = [("CODEX_HOME", path_text(&home))];
    let plan = adapter.plan(turn, arguments(adapter, turn, turn.config, schema.as_deref())?, &variables);
    let shown = arguments(adapter, turn, turn.shown_config, schema.as_deref())?;
    let shown_argv = turn.program.iter().cloned().chain(shown).collect();
    Ok(LaunchPlan { files, shown_argv, ..plan })
}

fn arguments(
    adapter: &Adapter,
    turn: &Turn<'_>,
    config: &Value,
    schema: Option<&str>,
) -> Result<Vec<String>, TurnRefused> {
    let mut arguments = words(&["exec", "--json", "--skip-git-repo-check", "-s"]);
    arguments.push(own_sandbox(turn).to_owned());
    arguments.extend(["-C".to_owned(), path_text(turn.run_dir)]);
    for (key, value) in overrides(adapter, turn, config)? {
        arguments.extend(["-c".to_owned(), format!("{key}={value}")]);
    }
    if let Some(schema) = schema {
        arguments.extend(["--output-schema".to_owned(), schema.to_owned()]);
    }
    if let Some(handle) = turn.resume {
        arguments.extend(["resume".to_owned(), handle.to_owned()]);
    }
    arguments.push("-".to_owned());
    Ok(arguments)
}

/// What codex's own sandbox allows. Its tool that changes files has no other switch: with nothing to write, each change is refused, and
/// where commands cannot be run either, no namespace is made, so that this works inside another sandbox, too.
fn own_sandbox(turn: &Turn<'_>) -> &'static str {
    match turn.tools {
        Some(tools) if !run_commands(tools) && !change_files(tools) => "read-only",
        Some(_) | None if turn.own_sandbox => "workspace-write",
        Some(_) | None => "danger-full-access",
    }
}

/// The configuration as `-c` overrides: concurrent runs share codex's home, so none may write its file there.
fn overrides(adapter: &Adapter, turn: &Turn<'_>, config: &Value) -> Result<Vec<(String, String)>, TurnRefused> {
    let mut config = config.clone();
    // What the operator says of the network stands, unless the skill is to have none.
    let network = config.pointer("/sandbox_workspace_write/network_access").is_some();
    if turn.own_sandbox && (turn.network != network) {
        lay_over(&mut config, json!({ "sandbox_workspace_write": { "network_access": turn.network } }));
    }
    if turn.own_sandbox {
        // Commands have the turn's own temporary folder, which is in TMPDIR; the other one is everybody's.
        lay_over(&mut config, json!({ "sandbox_workspace_write": { "exclude_slash_tmp": true } }));
    }
    if let Some(tools) = turn.tools {
        lay_over(&mut config, tools::switched_off(tools));
    }
    for name in hidden_keys::names(adapter, turn) {
        // Emptied one by one: a list of names to leave out would take the place of the operator's.
        lay_over(&mut config, json!({ "shell_environment_policy": { "set": { (name): "" } } }));
    }
    let mut leaves = Vec::new();
    if let Value::Object(entries) = &config {
        flatten("", entries, &mut leaves)?;
    }
    Ok(leaves)
}

fn flatten(path: &str, entries: &Map<String, Value>, leaves: &mut Vec<(String, String)>) -> Result<(), TurnRefused> {
    for (key, value) in entries {
        let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            // Only plain keys can stand in a dotted path; a table with others is written as a whole.
            Value::Object(inner) if !inner.is_empty() && inner.keys().all(|key| is_plain(key)) => {
                flatten(&key, inner, leaves)?;
            }
            _ if !key.split('.').all(is_plain) => {
                let reason = "a key can have only letters, digits, - and _".to_owned();
                return Err(TurnRefused::Config { key, reason });
            }
            value => leaves.push((key.clone(), inline(&key, value)?)),
        }
    }
    Ok(())
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// A value as TOML, without a table head.
fn inline(key: &str, value: &Value) -> Result<String, TurnRefused> {
    let unfit = |reason: String| TurnRefused::Config { key: key.to_owned(), reason };
    let value = toml::Value::try_from(Plain(value)).map_err(|error| unfit(error.to_string()))?;
    Ok(value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_becomes_dotted_overrides_and_tables_with_odd_keys_stay_whole() {
        let config = json!({
            "model": "a \"b\"",
            "features": { "apps": false },
            "model_providers": { "x": { "name": "x", "query_params": { "api.version": "1" } } },
            "list": [1, { "a": "b\nc" }],
        });
        let mut leaves = Vec::new();
        flatten("", config.as_object().unwrap(), &mut leaves).unwrap();
        let expected = [
            ("model", "'a \"b\"'"),
            ("features.apps", "false"),
            ("model_providers.x.name", "\"x\""),
            ("model_providers.x.query_params", "{ \"api.version\" = \"1\" }"),
            ("list", "[1, { a = \"\"\"\nb\nc\"\"\" }]"),
        ];
        assert_eq!(leaves, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
}
