//! The key under which equal runs share a result, and the canonical JSON it is made of.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::request::{Caller, RuntimeOptions, SkillRef};

/// Everything that can change a run's output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyParts<'a> {
    /// Skill and its content.
    pub(crate) skill: &'a SkillRef,
    pub(crate) engine: &'a str,
    pub(crate) model: Option<&'a str>,
    /// Options; only those that affect output are used.
    pub(crate) options: &'a RuntimeOptions,
    /// Hash of the configuration the client sent for the engine.
    pub(crate) engine_config_sha256: Option<&'a str>,
    pub(crate) parameter: &'a Map<String, Value>,
    pub(crate) input: &'a Map<String, Value>,
    /// Hash of the list of uploaded files.
    pub(crate) manifest_sha256: &'a str,
    /// Hash of a one-off package.
    pub(crate) package_sha256: Option<&'a str>,
    /// Who the run is for, if the client said so: its script is told.
    pub(crate) context: Option<&'a Caller>,
}

/// One part of a key: what it is, and the hash of its value.
pub(crate) type KeyPart = (&'static str, String);

impl KeyParts<'_> {
    /// Each part with its hash, in a fixed order: so that one can see which parts of two keys differ.
    pub(crate) fn hashes(&self) -> Vec<KeyPart> {
        // A script sees whether it is debugged, so `debug` counts; time limits, logs and kept files do not change a result.
        let options = json!({
            "execution_mode": self.options.execution_mode.as_str(),
            "debug": self.options.debug,
        });
        let parts: [(&'static str, Value); 10] = [
            ("skill_id", self.skill.id.as_str().into()),
            ("skill_content", self.skill.fingerprint.as_str().into()),
            ("engine", self.engine.into()),
            ("model", self.model.into()),
            ("options", options),
            ("engine_config", self.engine_config_sha256.into()),
            ("parameter", Value::Object(self.parameter.clone())),
            ("input", Value::Object(self.input.clone())),
            ("uploads", self.manifest_sha256.into()),
            ("package", self.package_sha256.into()),
        ];
        // Keys are stored: what a request does not have is not in them.
        let context = self.context.map(|context| ("context", json!(context)));
        parts.into_iter().chain(context).map(|(name, value)| (name, sha256_hex(canonical(&value).as_bytes()))).collect()
    }
}

/// The key of these parts, in hexadecimal.
pub(crate) fn cache_key(parts: &KeyParts<'_>) -> String {
    let mut text = String::with_capacity(1024);
    for (name, hash) in parts.hashes() {
        text.push_str(name);
        text.push('=');
        text.push_str(&hash);
        text.push('\n');
    }
    sha256_hex(text.as_bytes())
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
    hex::encode(Sha256::digest(bytes))
}

/// The thirty-two bytes of a hash in hexadecimal, as this program writes it.
pub(crate) fn sha256_bytes(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::request::ExecutionMode;

    #[test]
    fn canonical_text_does_not_depend_on_key_order() {
        assert_eq!(canonical(&json!({"b": [{"z": 1, "a": null}], "a": "x"})), r#"{"a":"x","b":[{"a":null,"z":1}]}"#);
        assert_eq!(canonical(&json!({"a": 1, "b": 2})), canonical(&json!({"b": 2, "a": 1})));
        assert_ne!(canonical(&json!({"a": [1, 2]})), canonical(&json!({"a": [2, 1]})), "an array has an order");
    }

    #[test]
    fn a_hash_reads_back_from_its_own_text() {
        let hash = sha256_hex(b"x");
        assert_eq!(sha256_bytes(&hash).map(hex::encode), Some(hash.clone()));
        assert_eq!((sha256_bytes(&hash[1..]), sha256_bytes(&"g".repeat(64))), (None, None));
    }

    struct Case {
        context: Option<Caller>,
        skill: SkillRef,
        engine: &'static str,
        model: Option<&'static str>,
        options: RuntimeOptions,
        config: Option<&'static str>,
        parameter: Value,
        input: Value,
        manifest: &'static str,
        package: Option<&'static str>,
    }

    fn case() -> Case {
        Case {
            context: None,
            skill: SkillRef { id: "demo".into(), version: "1.0.0".into(), fingerprint: "f".into() },
            engine: "codex",
            model: None,
            options: RuntimeOptions {
                execution_mode: ExecutionMode::Auto,
                no_cache: false,
                debug: false,
                debug_keep_temp: false,
                verbose: false,
                interactive_auto_reply: false,
                interactive_reply_timeout_sec: 1,
                hard_timeout_seconds: 1,
                stall_timeout_seconds: 1,
                retry: None,
            },
            config: None,
            parameter: json!({"a": 1, "b": {"y": 1, "x": [1, 2]}}),
            input: json!({}),
            manifest: "m",
            package: None,
        }
    }

    /// The case's key and its parts.
    fn keyed(case: &Case) -> (String, Vec<KeyPart>) {
        let object = |value: &Value| value.as_object().unwrap().clone();
        let parts = KeyParts {
            skill: &case.skill,
            engine: case.engine,
            model: case.model,
            options: &case.options,
            engine_config_sha256: case.config,
            parameter: &object(&case.parameter),
            input: &object(&case.input),
            manifest_sha256: case.manifest,
            package_sha256: case.package,
            context: case.context.as_ref(),
        };
        (cache_key(&parts), parts.hashes())
    }

    #[test]
    fn each_part_changes_the_key_and_is_named_alone() {
        type Change = fn(&mut Case);
        let changes: [(&str, Change); 12] = [
            ("skill_id", |case| case.skill.id = "other".into()),
            ("skill_content", |case| case.skill.fingerprint = "g".into()),
            ("engine", |case| case.engine = "gemini"),
            ("model", |case| case.model = Some("")),
            ("options", |case| case.options.execution_mode = ExecutionMode::Interactive),
            ("options", |case| case.options.debug = true),
            ("engine_config", |case| case.config = Some("c")),
            ("parameter", |case| case.parameter = json!({"a": 1.5, "b": {"y": 1, "x": [1, 2]}})),
            ("parameter", |case| case.parameter = json!({"a": 1, "b": {"y": 1, "x": [2, 1]}})),
            ("input", |case| case.input = json!({"a": null})),
            ("uploads", |case| case.manifest = "n"),
            ("package", |case| case.package = Some("p")),
        ];
        let (key, parts) = keyed(&case());
        for (name, change) in changes {
            let mut changed = case();
            change(&mut changed);
            let (other_key, other_parts) = keyed(&changed);
            let differing: Vec<_> =
                parts.iter().zip(&other_parts).filter(|(one, other)| one != other).map(|(one, _)| one.0).collect();
            assert_eq!((differing, key == other_key), (vec![name], false), "{name}");
        }
    }

    #[test]
    fn what_changes_no_result_leaves_the_key_as_it_is() {
        let changes: [fn(&mut Case); 6] = [
            |case| case.parameter = json!({"b": {"x": [1, 2], "y": 1}, "a": 1}),
            |case| case.skill.version = "1.0.1".into(),
            |case| case.options.no_cache = true,
            |case| case.options.verbose = true,
            |case| case.options.hard_timeout_seconds = 77,
            |case| case.options.debug_keep_temp = true,
        ];
        let key = keyed(&case()).0;
        for change in changes {
            let mut changed = case();
            change(&mut changed);
            assert_eq!(keyed(&changed).0, key);
        }
    }
}
