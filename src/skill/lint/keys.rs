//! Checks a file against its published schema, and finds keys that have no effect.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::Value;

use super::super::finding::{Finding, Report, escape};
use super::super::schema::Validator;
use crate::bounded;
use crate::domain::codes::FindingCode;

/// The embedded schemas, compiled once: that takes longer than all else that is checked in a small skill.
static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);

/// By their text; none for one that is broken.
type Compiled = HashMap<&'static str, Option<Arc<Validator>>>;

fn compiled(schema: &'static str) -> Option<Arc<Validator>> {
    let compile = || Validator::new(&bounded::json::from_str(schema).ok()?).ok().map(Arc::new);
    COMPILED.lock().unwrap_or_else(PoisonError::into_inner).entry(schema).or_insert_with(compile).clone()
}

/// Checks a value against one of the embedded schemas; unknown keys are warnings.
pub(crate) fn check(schema: &'static str, value: &Value, file: &str, report: &mut Report) {
    violations(schema, value, file, FindingCode::ShapeInvalid, report);
    if let Ok(schema) = bounded::json::from_str::<Value>(schema) {
        let mut walk = Walk { root: &schema, file, report };
        walk.unknown_keys(&schema, value, "");
    }
}

/// Reports each violation, unless a specific rule has already reported that place.
pub(crate) fn violations(schema: &'static str, value: &Value, file: &str, code: FindingCode, report: &mut Report) {
    let Some(validator) = compiled(schema) else {
        // Tests make sure that the embedded schemas compile. If one did not, nothing may pass as checked.
        report.push(Finding::error(code, file, "the runner's own schema is broken", "report this as a defect"));
        return;
    };
    let violations = validator.errors(value).unwrap_or_else(|costly| vec![costly.into()]);
    for violation in violations {
        let hint = "see the published schema of this file for what may stand here";
        report.push_unless_said(Finding::error(code, file, violation.message, hint).at(violation.path));
    }
}

/// The names that an embedded schema knows at this place.
pub(crate) fn properties(schema: &str, pointer: &str) -> Vec<String> {
    let schema: Value = bounded::json::from_str(schema).unwrap_or_default();
    let known = schema.pointer(pointer).and_then(Value::as_object);
    known.into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

struct Walk<'a> {
    root: &'a Value,
    file: &'a str,
    report: &'a mut Report,
}

impl Walk<'_> {
    fn unknown_keys(&mut self, schema: &Value, value: &Value, pointer: &str) {
        let schema = self.target(schema);
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    self.key(&schema, key, field, &format!("{pointer}/{}", escape(key)));
                }
            }
            Value::Array(items) => {
                let Some(of_items) = schema.get("items") else { return };
                for (index, item) in items.iter().enumerate() {
                    self.unknown_keys(of_items, item, &format!("{pointer}/{index}"));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn key(&mut self, schema: &Value, key: &str, field: &Value, pointer: &str) {
        let Some(known) = schema.get("properties") else { return };
        if let Some(of_field) = known.get(key) {
            return self.unknown_keys(of_field, field, pointer);
        }
        // `$schema` is for editors, and `x-` keys are free for any use.
        if key.starts_with('$') || key.starts_with("x-") {
            return;
        }
        let names: Vec<&str> = known.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let finding = Finding::error(
            FindingCode::UnknownKey,
            self.file,
            format!("the key {key:?} is unknown and has no effect"),
            format!("remove it, or use one of: {}", names.join(", ")),
        );
        self.report.push_unless_said(finding.into_warning().at(pointer));
    }

    fn target(&self, schema: &Value) -> Value {
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        reference.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(schema).clone()
    }
}
