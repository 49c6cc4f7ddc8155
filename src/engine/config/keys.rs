//! The keys of an engine's configuration that a package or a request may set. Every other key is for the operator alone: it may run
//! commands, open files, reach other hosts or lift a sandbox.

use serde_json::Value;

use crate::engine::model_name::is_model_name;

/// Longest text of a [`Takes::Word`].
const WORD_MAX: usize = 40;
/// Keys that are named in one refusal.
const NAMED_MAX: usize = 20;
/// Characters of a refused key that are shown.
const SHOWN_MAX: usize = 100;

/// A key that a package or a request may set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// Its place, dotted: `model.name` is `name` in the table `model`.
    pub(crate) path: &'static str,
    pub(crate) takes: Takes,
    /// What it does, and so why it may be set by anybody.
    pub(crate) does: &'static str,
}

/// The values that a key takes. None of them can hold a path, an address, a command, or a `$VARIABLE` or `{env:…}` that some engines
/// replace by a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Flag,
    /// A whole number from 0.
    Count,
    Number,
    /// A word of an engine's own list, such as `high`.
    Word,
    Model,
}

impl Takes {
    /// What it takes, for messages and documentation.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Count => "a whole number",
            Self::Number => "a number",
            Self::Word => "a word of a-z, 0-9, - and _",
            Self::Model => "the name of a model",
        }
    }

    fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Flag, Value::Bool(_)) | (Self::Number, Value::Number(_)) => true,
            (Self::Count, Value::Number(number)) => number.is_u64(),
            (Self::Word, Value::String(word)) => {
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
                (1..=WORD_MAX).contains(&word.len()) && !word.starts_with('-') && word.chars().all(plain)
            }
            (Self::Model, Value::String(name)) => is_model_name(name),
            (Self::Flag | Self::Count | Self::Number | Self::Word | Self::Model, _) => false,
        }
    }
}

/// A key that is refused. Its value is never told: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedKey {
    /// Its place, step by step.
    pub(crate) path: Vec<String>,
    pub(crate) reason: String,
}

impl RefusedKey {
    /// Its place, dotted, fit to be shown.
    pub(crate) fn shown(&self) -> String {
        let dotted = self.path.join(".");
        let shown: String = dotted.escape_debug().take(SHOWN_MAX).collect();
        if dotted.chars().count() > SHOWN_MAX { format!("{shown}…") } else { shown }
    }
}

/// What a package or a request may not set, of everything in its layer.
pub(crate) fn refused(allowed: &[Key], layer: &Value) -> Vec<RefusedKey> {
    let mut found = Vec::new();
    look(allowed, &mut Vec::new(), layer, &mut found);
    found
}

fn look(allowed: &[Key], path: &mut Vec<String>, value: &Value, found: &mut Vec<RefusedKey>) {
    if found.len() == NAMED_MAX {
        return;
    }
    if let Some(key) = allowed.iter().find(|key| key.path.split('.').eq(path.iter().map(String::as_str))) {
        if !key.takes.accepts(value) {
            let reason = format!("it is for {}, and must be {}", key.does, key.takes.as_str());
            found.push(RefusedKey { path: path.clone(), reason });
        }
        return;
    }
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                path.push(key.clone());
                look(allowed, path, value, found);
                path.pop();
            }
        }
        // An empty table sets nothing.
        Value::Object(_) if is_above_a_key(allowed, path) => {}
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            found.push(RefusedKey { path: path.clone(), reason: "only the operator may set it".to_owned() });
        }
    }
}

fn is_above_a_key(allowed: &[Key], path: &[String]) -> bool {
    let begins = |key: &Key| {
        let mut steps = key.path.split('.');
        path.iter().all(|step| steps.next() == Some(step))
    };
    path.is_empty() || allowed.iter().any(begins)
}

/// The refused keys as one text.
pub(crate) fn list(refused: &[RefusedKey]) -> String {
    let each = refused.iter().map(|key| format!("{} ({})", key.shown(), key.reason));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALLOWED: &[Key] = &[
        Key { path: "model", takes: Takes::Model, does: "" },
        Key { path: "fast", takes: Takes::Flag, does: "" },
        Key { path: "a.b.effort", takes: Takes::Word, does: "" },
        Key { path: "a.count", takes: Takes::Count, does: "" },
        Key { path: "a.heat", takes: Takes::Number, does: "" },
    ];

    fn refused_keys(layer: &Value) -> Vec<String> {
        refused(ALLOWED, layer).iter().map(RefusedKey::shown).collect()
    }

    #[test]
    fn what_is_listed_may_be_set() {
        let layer = json!({
            "model": "openrouter/meta/llama-3.1:free", "fast": true,
            "a": { "b": { "effort": "x-high" }, "count": 3, "heat": 0.2 },
        });
        assert_eq!(refused(ALLOWED, &layer), []);
        assert_eq!(refused(ALLOWED, &json!({})), []);
        assert_eq!(refused(ALLOWED, &json!({ "a": { "b": {} } })), []);
    }

    #[test]
    fn everything_else_is_refused_and_named_without_its_value() {
        let layer = json!({
            "notify": ["curl", "s3cret"], "a": { "c": "s3cret", "b": { "effort2": 1 } }, "a.count": 3, "model.x": {}, "Model": "m",
        });
        assert_eq!(refused_keys(&layer), ["notify", "a.c", "a.b.effort2", "a.count", "model.x", "Model"]);
        assert!(!list(&refused(ALLOWED, &layer)).contains("s3cret"));
    }

    #[test]
    fn a_listed_key_takes_only_its_kind_of_value() {
        for (key, value) in [
            ("model", json!("{env:OPENAI_API_KEY}")),
            ("model", json!("$OPENAI_API_KEY")),
            ("model", json!("--yolo")),
            ("model", json!({ "command": "sh" })),
            ("model", json!("")),
            ("fast", json!("true")),
            ("fast", json!(null)),
        ] {
            let layer = Value::Object([(key.to_owned(), value.clone())].into_iter().collect());
            assert_eq!(refused_keys(&layer), [key], "{value}");
        }
        for (key, value) in [
            ("count", json!(-1)),
            ("count", json!(1.5)),
            ("heat", json!("0.2")),
            ("heat", json!([1])),
            ("b", json!({ "effort": "High" })),
            ("b", json!({ "effort": "-x" })),
            ("b", json!({ "effort": "x".repeat(41) })),
            ("b", json!("x")),
        ] {
            let layer = json!({ "a": { key: value } });
            assert_eq!(refused_keys(&layer).len(), 1, "{layer}");
        }
    }

    #[test]
    fn a_key_is_shown_short_and_on_one_line_and_few_are_named() {
        let long = refused(ALLOWED, &json!({ format!("x\n{}", "y".repeat(500)): 1 }));
        let shown = long[0].shown();
        assert!(shown.starts_with("x\\ny") && shown.chars().count() == SHOWN_MAX + 1, "{shown}");
        let many: Value = (0..500).map(|at| (format!("k{at}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
        assert_eq!(refused(ALLOWED, &many).len(), NAMED_MAX);
    }
}
