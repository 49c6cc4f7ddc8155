//! What looks like a secret: names of variables and settings, and the values that go with them.

use serde_json::Value;

/// Shorter values are not masked: they would be found in ordinary words.
const VALUE_MIN: usize = 8;
const VALUE_MAX: usize = 8 * 1024;

/// Parts of names of secrets, without the signs between words.
const PARTS: [&str; 9] =
    ["apikey", "token", "secret", "password", "passwd", "credential", "authorization", "bearer", "privatekey"];
/// Ends of names that say where a secret is, or something else about it.
const NOT_ITSELF: [&str; 11] =
    ["url", "uri", "path", "file", "dir", "type", "limit", "endpoint", "expiry", "expires", "expiresat"];

/// Whether a variable or setting of this name holds a secret.
pub(crate) fn names_a_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let is_one = PARTS.iter().any(|part| plain.contains(part)) || plain.ends_with("key");
    is_one && !NOT_ITSELF.iter().any(|end| plain.ends_with(end))
}

/// Whether a text can be a secret itself, and not a word, a place or a reference.
pub(crate) fn can_be_a_secret(value: &str) -> bool {
    let is_variable =
        value.contains('_') && value.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let refers = value.contains("://") || value.starts_with(['/', '$', '{', '~']) || is_variable;
    (VALUE_MIN..=VALUE_MAX).contains(&value.len()) && !refers && !value.contains(char::is_whitespace)
}

/// The secrets in a configuration or login, by the names of their keys.
pub(crate) fn secrets_in(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![(false, value)];
    while let Some((named, value)) = waiting.pop() {
        match value {
            Value::String(text) if named && can_be_a_secret(text) => found.push(text.clone()),
            Value::Array(values) => waiting.extend(values.iter().map(|value| (named, value))),
            Value::Object(entries) => {
                waiting.extend(entries.iter().map(|(key, value)| (names_a_secret(key), value)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

/// The secrets in lines of the form `NAME=value`.
pub(crate) fn secrets_in_assignments(text: &str) -> Vec<String> {
    let assigned = text.lines().filter_map(|line| line.trim().trim_start_matches("export ").split_once('='));
    let secrets = assigned.filter(|(name, _)| names_a_secret(name.trim()));
    let values = secrets.map(|(_, value)| value.trim().trim_matches(['"', '\'']).to_owned());
    values.filter(|value| can_be_a_secret(value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_tokens_are_known_by_their_names_and_places_are_not() {
        for name in
            ["OPENAI_API_KEY", "apiKey", "GITHUB_TOKEN", "refresh_token", "DB_PASSWORD", "MY_KEY", "clientSecret"]
        {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["PATH", "OPENAI_BASE_URL", "token_uri", "KEY_FILE", "tokenType", "MODEL", "keyboard", "monkeys"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }

    #[test]
    fn secrets_are_found_in_logins_and_configurations() {
        let login = json!({
            "OPENAI_API_KEY": null, "account": "abcdefgh-account",
            "tokens": {"access_token": "eyJ.access.one", "expires_at": "2026-01-01T00:00"},
            "provider": {"x": {"options": {"apiKey": "sk-configured", "baseURL": "http://host/v1"}}},
            "secret": "short", "token": "{env:ANOTHER_KEY}", "env_key": "MY_PROVIDER_KEY",
        });
        let mut found = secrets_in(&login);
        found.sort();
        assert_eq!(found, ["eyJ.access.one", "sk-configured"]);
        let lines = "# keys\nexport GEMINI_API_KEY=\"AIza-secret\"\nMODEL=gemini-2.5-flash\n TOKEN = abc\n";
        assert_eq!(secrets_in_assignments(lines), ["AIza-secret"]);
    }
}
