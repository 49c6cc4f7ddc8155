//! Whether an engine can log in to its service, told from names and files alone: no model is asked, no secret is read out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::settings;

/// Longest file that is looked into.
const FILE_MAX: u64 = 1024 * 1024;

/// What an engine can log in with.
struct Login {
    engine: &'static str,
    /// Any one of these, passed through, is enough.
    variables: &'static [&'static str],
    /// Whether its providers are configured, so that a key of any name may be the right one.
    other_keys: bool,
    /// What a log-in leaves in the engine's home.
    file: &'static str,
    /// How to log in by hand; `{home}` is the engine's home.
    command: Option<&'static str>,
}

const LOGINS: [Login; 6] = [
    Login {
        engine: "codex",
        variables: &["OPENAI_API_KEY", "CODEX_API_KEY"],
        other_keys: true,
        file: ".codex/auth.json",
        command: Some("CODEX_HOME={home}/.codex codex login"),
    },
    Login {
        engine: "gemini",
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"],
        other_keys: false,
        file: ".gemini/oauth_creds.json",
        command: Some("GEMINI_CLI_HOME={home} gemini"),
    },
    Login {
        engine: "opencode",
        variables: &["OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
        other_keys: true,
        file: "data/opencode/auth.json",
        command: Some("HOME={home} XDG_DATA_HOME={home}/data opencode auth login"),
    },
    Login {
        engine: "iflow",
        variables: &["IFLOW_API_KEY"],
        other_keys: true,
        file: ".iflow/oauth_creds.json",
        command: None,
    },
    Login {
        engine: "claude",
        variables: &["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"],
        other_keys: false,
        file: "cfg/.credentials.json",
        command: Some("CLAUDE_CONFIG_DIR={home}/cfg claude"),
    },
    Login {
        engine: "qwen",
        variables: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY"],
        other_keys: false,
        file: ".qwen/oauth_creds.json",
        command: Some("QWEN_HOME={home}/.qwen qwen"),
    },
];

/// Whether an engine can log in, and in words why or what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readiness {
    pub ready: bool,
    pub detail: String,
}

/// Looks whether an engine can log in. What is there may still be refused by its service.
pub(super) fn readiness(
    engine: &str,
    settings: &settings::Engine,
    env: &BTreeMap<String, String>,
    home: &Path,
) -> Readiness {
    let Some(login) = LOGINS.iter().find(|login| login.engine == engine) else {
        return Readiness { ready: false, detail: "it is not known what it logs in with".to_owned() };
    };
    let is_set = |name: &str| env.get(name).is_some_and(|value| !value.is_empty());
    let is_passed = |name: &str| settings.env_pass.iter().any(|passed| passed == name);
    let fits = |name: &str| login.variables.contains(&name) || (login.other_keys && is_key(name));
    if let Some(name) = settings.env_pass.iter().find(|name| fits(name) && is_set(name)) {
        return Readiness { ready: true, detail: format!("{name} is passed through") };
    }
    let file = home.join(login.file);
    if holds_something(&file) {
        return Readiness { ready: true, detail: format!("a log-in is kept in {}", file.display()) };
    }
    let passing = format!("engines.{engine}.env_pass");
    let detail = if let Some(name) = login.variables.iter().find(|name| is_set(name) && !is_passed(name)) {
        format!("{name} is set but not passed through: add it to {passing}")
    } else if let Some(name) = settings.env_pass.iter().find(|name| fits(name)) {
        format!("{name} is named in {passing}, but the service's environment does not have it: set it and restart")
    } else {
        let variable = login.variables.first().copied().unwrap_or("its key");
        format!("not logged in: set {variable} in the service's environment and name it in {passing}")
    };
    let by_hand = login.command.map(|command| command.replace("{home}", &home.to_string_lossy()));
    let by_hand = by_hand.map(|command| format!("; or log in by hand: {command}")).unwrap_or_default();
    Readiness { ready: false, detail: format!("{detail}{by_hand}") }
}

/// Whether a variable's name says that it holds a key.
fn is_key(name: &str) -> bool {
    ["_KEY", "_TOKEN", "_API_KEY"].iter().any(|end| name.ends_with(end))
}

/// Whether a log-in's file has an entry; what it is stays there.
fn holds_something(file: &Path) -> bool {
    let is_small = fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() <= FILE_MAX);
    if !is_small {
        return false;
    }
    let content: Option<Value> = fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    content.is_some_and(|content| content.as_object().is_some_and(|entries| !entries.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ADAPTERS;

    fn check(engine: &str, env_pass: &[&str], env: &[(&str, &str)], home: &Path) -> (bool, String) {
        let settings =
            settings::Engine { command: None, env_pass: env_pass.iter().map(|name| (*name).to_owned()).collect() };
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let Readiness { ready, detail } = readiness(engine, &settings, &env, home);
        (ready, detail.replace(&home.display().to_string(), "HOME"))
    }

    #[test]
    fn every_engine_has_a_way_to_log_in() {
        let known: Vec<&str> = LOGINS.iter().map(|login| login.engine).collect();
        assert_eq!(known, ADAPTERS.map(|adapter| adapter.name));
    }

    #[test]
    fn a_key_counts_when_it_is_set_and_passed_and_the_detail_says_which_half_is_missing() {
        let home = tempfile::tempdir().unwrap();
        let by_hand = "; or log in by hand: CLAUDE_CONFIG_DIR=HOME/cfg claude";
        let key = "ANTHROPIC_API_KEY";
        let found = [
            check("claude", &[key], &[(key, "sk-secret")], home.path()),
            check("claude", &[], &[(key, "sk-secret")], home.path()),
            check("claude", &[key], &[(key, "")], home.path()),
            check("claude", &["FOO_KEY"], &[("FOO_KEY", "sk-secret")], home.path()),
        ];
        let expected = [
            (true, format!("{key} is passed through")),
            (false, format!("{key} is set but not passed through: add it to engines.claude.env_pass{by_hand}")),
            (
                false,
                format!(
                    "{key} is named in engines.claude.env_pass, but the service's environment does not have it: \
                     set it and restart{by_hand}"
                ),
            ),
            (
                false,
                format!(
                    "not logged in: set {key} in the service's environment and name it in \
                     engines.claude.env_pass{by_hand}"
                ),
            ),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_engine_with_providers_of_its_own_takes_a_key_of_any_name() {
        let home = tempfile::tempdir().unwrap();
        let found = check("codex", &["MY_PROVIDER_KEY"], &[("MY_PROVIDER_KEY", "x")], home.path());
        assert_eq!(found, (true, "MY_PROVIDER_KEY is passed through".to_owned()));
    }

    #[test]
    fn a_log_in_counts_when_its_file_has_an_entry() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".codex/auth.json");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (content, ready) in [("", false), ("{}", false), ("not json", false), (r#"{"tokens":{}}"#, true)] {
            fs::write(&file, content).unwrap();
            assert_eq!(check("codex", &[], &[], home.path()).0, ready, "{content}");
        }
    }
}
