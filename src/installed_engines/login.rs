//! Whether an engine can log in to its service, judged by names of variables and files alone: no request is sent and no
//! secret is shown.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::bounded;
use crate::engine::{Adapter, Login};
use crate::files;
use crate::settings::EngineSettings;

/// Longest login file that is read.
const FILE_MAX: u64 = 1024 * 1024;

/// Whether an engine can log in, and why or what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) ready: bool,
    pub(crate) detail: String,
}

/// Checks whether an engine can log in. Its service may still refuse the key or the login.
pub(crate) fn readiness(
    adapter: &Adapter,
    settings: &EngineSettings,
    env: &BTreeMap<String, String>,
    home: &Path,
) -> Readiness {
    let Login { variables, other_keys, file, command } = adapter.login;
    let is_set = |name: &str| env.get(name).is_some_and(|value| !value.is_empty());
    let is_passed = |name: &str| settings.env_pass.iter().any(|passed| passed == name);
    let fits = |name: &str| variables.contains(&name) || (other_keys && is_key(name));
    if let Some(name) = settings.env_pass.iter().find(|name| fits(name) && is_set(name)) {
        return Readiness { ready: true, detail: format!("{name} is passed through") };
    }
    let file = home.join(file);
    if has_entries(&file) {
        return Readiness { ready: true, detail: format!("a login is stored in {}", file.display()) };
    }
    let passing = format!("engines.{}.env_pass", adapter.name());
    let detail = if let Some(name) = variables.iter().find(|name| is_set(name) && !is_passed(name)) {
        format!("{name} is set but not passed through: add it to {passing}")
    } else if let Some(name) = settings.env_pass.iter().find(|name| fits(name)) {
        format!("{name} is named in {passing} but not set in the service's environment: set it and restart the service")
    } else {
        let variable = variables.first().copied().unwrap_or("its key");
        format!("not logged in: set {variable} in the service's environment and name it in {passing}")
    };
    let by_hand = command.map(|command| command.replace("{home}", &home.to_string_lossy()));
    let by_hand = by_hand.map(|command| format!("; or log in by hand: {command}")).unwrap_or_default();
    Readiness { ready: false, detail: format!("{detail}{by_hand}") }
}

/// Whether a variable's name says that it holds a key.
fn is_key(name: &str) -> bool {
    ["_KEY", "_TOKEN", "_API_KEY"].iter().any(|end| name.ends_with(end))
}

/// Whether a login file has an entry; its content is not looked at.
fn has_entries(file: &Path) -> bool {
    let is_small = fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() <= FILE_MAX);
    if !is_small {
        return false;
    }
    let content: Option<Value> =
        files::read_followed(file).ok().and_then(|bytes| bounded::json::from_slice(&bytes).ok());
    content.is_some_and(|content| content.as_object().is_some_and(|entries| !entries.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;

    fn check(engine: &str, env_pass: &[&str], env: &[(&str, &str)], home: &Path) -> (bool, String) {
        let settings =
            EngineSettings { command: None, env_pass: env_pass.iter().map(|name| (*name).to_owned()).collect() };
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let Readiness { ready, detail } = readiness(engine::adapter_named(engine).unwrap(), &settings, &env, home);
        (ready, detail.replace(&home.display().to_string(), "HOME"))
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
                    "{key} is named in engines.claude.env_pass but not set in the service's environment: \
                     set it and restart the service{by_hand}"
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
    fn a_login_counts_when_its_file_has_an_entry() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".codex/auth.json");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (content, ready) in [("", false), ("{}", false), ("not json", false), (r#"{"tokens":{}}"#, true)] {
            fs::write(&file, content).unwrap();
            assert_eq!(check("codex", &[], &[], home.path()).0, ready, "{content}");
        }
    }
}
