//! The key under which equal runs share a result, and the canonical JSON it is made of.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::request::{RuntimeOptions, SkillRef};

/// Everything that can change a run's output.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyParts<'a> {
    /// Skill and its content.
    pub skill: &'a SkillRef,
    /// Engine.
    pub engine: &'a str,
    /// Model.
    pub model: Option<&'a str>,
    /// Options; only those that affect output are used.
    pub options: &'a RuntimeOptions,
    /// Parameters.
    pub parameter: &'a Map<String, Value>,
    /// Inline inputs.
    pub input: &'a Map<String, Value>,
    /// Hash of the list of uploaded files.
    pub manifest_sha256: &'a str,
    /// Hash of a one-off package.
    pub package_sha256: Option<&'a str>,
}

/// The key of these parts, in hexadecimal.
pub fn cache_key(parts: &KeyParts<'_>) -> String {
    let mut whole = Map::new();
    whole.insert("skill_id".into(), parts.skill.id.as_str().into());
    whole.insert("fingerprint".into(), parts.skill.fingerprint.as_str().into());
    whole.insert("engine".into(), parts.engine.into());
    whole.insert("model".into(), parts.model.into());
    whole.insert("execution_mode".into(), parts.options.execution_mode.as_str().into());
    whole.insert("parameter".into(), Value::Object(parts.parameter.clone()));
    whole.insert("input".into(), Value::Object(parts.input.clone()));
    whole.insert("manifest_sha256".into(), parts.manifest_sha256.into());
    whole.insert("package_sha256".into(), parts.package_sha256.into());
    sha256_hex(canonical(&Value::Object(whole)).as_bytes())
}

/// JSON with sorted keys and no white space: equal values have equal text.
pub fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut pairs: Vec<_> = map.iter().collect();
                pairs.sort_by(|a, b| a.0.cmp(b.0));
                Value::Object(pairs.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }
    sorted(value).to_string()
}

/// Hash of bytes, in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_text_does_not_depend_on_key_order() {
        assert_eq!(canonical(&json!({"b": [{"z": 1, "a": null}], "a": "x"})), r#"{"a":"x","b":[{"a":null,"z":1}]}"#);
        assert_eq!(canonical(&json!({"a": 1, "b": 2})), canonical(&json!({"b": 2, "a": 1})));
    }
}
