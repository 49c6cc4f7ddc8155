//! The tests that a package brings in `tests/*.json`: what to run, what to expect, and how an outcome differs from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::manifest::ExecutionMode;
use super::schema::Validator;
use crate::bounded;
use crate::domain::engine::Engine;

/// The folder of a package that holds its tests.
pub(crate) const FOLDER: &str = "tests";
/// Most differences that are told.
const DIFFERENCES_MAX: usize = 50;

/// One test.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnTest {
    /// What it shows; the name of its file if it has none.
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) input: Map<String, Value>,
    #[serde(default)]
    pub(crate) parameter: Map<String, Value>,
    /// Input files: the field, and the path of its file relative to the folder of the tests.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// The engine; the script if there is one, else the first of the skill's.
    #[serde(default)]
    pub(crate) engine: Option<Engine>,
    /// What the engine printed, turn by turn: paths relative to the folder of the tests.
    #[serde(default, deserialize_with = "one_or_more")]
    pub(crate) recording: Vec<String>,
    #[serde(default)]
    pub(crate) execution_mode: Option<ExecutionMode>,
    /// The answers to the questions of an interactive run, in their order.
    #[serde(default)]
    pub(crate) replies: Vec<Value>,
    pub(crate) expect: Expected,
}

/// What an outcome must be.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// The data of the result, exactly.
    #[serde(default, deserialize_with = "given")]
    pub(crate) output: Option<Value>,
    /// A JSON Schema for the data, or the path of one in the package.
    #[serde(default)]
    pub(crate) schema: Option<Value>,
    /// `succeeded`, `failed`, `canceled`, or `refused` for a request that makes no run.
    #[serde(default)]
    pub(crate) status: Option<String>,
    /// The code of the error.
    #[serde(default)]
    pub(crate) error: Option<String>,
}

/// A null that was written is a value.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let text = |value: Value| match value {
        Value::String(text) => Ok(text),
        other => Err(serde::de::Error::custom(format!("{other} is not a path"))),
    };
    match Value::deserialize(from)? {
        Value::Array(paths) => paths.into_iter().map(text).collect(),
        one => Ok(vec![text(one)?]),
    }
}

/// Reads a file of tests: one, or a list of them. The message says what is wrong and where.
pub(crate) fn read(text: &str) -> Result<Vec<OwnTest>, String> {
    let value: Value = bounded::json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let tests = match value {
        Value::Array(tests) => tests,
        one => vec![one],
    };
    tests
        .into_iter()
        .enumerate()
        .map(|(at, test)| one(test).map_err(|wrong| format!("test {}: {wrong}", at + 1)))
        .collect()
}

fn one(test: Value) -> Result<OwnTest, String> {
    let test: OwnTest =
        serde_path_to_error::deserialize(test).map_err(|error| match error.path().to_string().as_str() {
            "." => error.inner().to_string(),
            path => format!("{path}: {}", error.inner()),
        })?;
    let Expected { output, schema, status, error } = &test.expect;
    if output.is_none() && schema.is_none() && status.is_none() && error.is_none() {
        return Err("expect says nothing; give it output, schema, status or error".into());
    }
    let statuses = ["succeeded", "failed", "canceled", "refused"];
    if let Some(other) = status.as_deref().filter(|status| !statuses.contains(status)) {
        return Err(format!("expect.status: {other:?} is none of {}", statuses.join(", ")));
    }
    if (output.is_some() || schema.is_some())
        && (error.is_some() || status.as_deref().is_some_and(|s| s != "succeeded"))
    {
        return Err("expect: only a run that succeeded has an output; leave out error and status".into());
    }
    Ok(test)
}

/// What came of a test's run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Came {
    /// As in [`Expected::status`].
    pub(crate) status: String,
    pub(crate) data: Value,
    /// Code and message.
    pub(crate) error: Option<(String, String)>,
}

/// One place where an outcome is not what was expected.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// `status`, `error`, or a JSON pointer into the data of the result behind `output`.
    pub(crate) at: String,
    /// What should have been there; none if nothing should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected: Option<Value>,
    /// What was there; none if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) actual: Option<Value>,
    /// The rule of a schema that is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<String>,
}

impl Difference {
    fn of(at: impl Into<String>, expected: Option<Value>, actual: Option<Value>) -> Self {
        Self { at: at.into(), expected, actual, rule: None }
    }
}

/// How an outcome differs from what was expected. The schema is the one of `expected.schema`, read by the caller.
pub(crate) fn differences(expected: &Expected, schema: Option<&Validator>, came: &Came) -> Vec<Difference> {
    let mut found = Vec::new();
    let code = came.error.as_ref().map(|(code, _)| Value::from(code.as_str()));
    let status = match (&expected.status, &expected.error) {
        (Some(status), _) => Some(status.as_str()),
        (None, None) => Some("succeeded"),
        // A request that is refused and a run that fails have codes alike.
        (None, Some(_)) => None,
    };
    if let Some(status) = status.filter(|status| *status != came.status) {
        found.push(Difference::of("status", Some(status.into()), Some(came.status.as_str().into())));
    }
    if let Some(wanted) = expected.error.as_deref().map(Value::from).filter(|wanted| Some(wanted) != code.as_ref()) {
        found.push(Difference::of("error", Some(wanted), code));
    }
    if came.status != "succeeded" {
        return found;
    }
    if let Some(output) = &expected.output {
        compare("output", output, &came.data, &mut found);
    }
    if let Some(schema) = schema {
        let broken = schema.errors(&came.data).unwrap_or_else(|costly| vec![costly.into()]);
        found.extend(broken.into_iter().map(|broken| Difference {
            rule: Some(broken.message),
            ..Difference::of(format!("output{}", broken.path), None, came.data.pointer(&broken.path).cloned())
        }));
    }
    found.truncate(DIFFERENCES_MAX);
    found
}

fn compare(at: &str, expected: &Value, actual: &Value, found: &mut Vec<Difference>) {
    if found.len() >= DIFFERENCES_MAX {
        return;
    }
    let below = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (key, value) in expected {
                match actual.get(key) {
                    Some(actual) => compare(&below(key), value, actual, found),
                    None => found.push(Difference::of(below(key), Some(value.clone()), None)),
                }
            }
            let more = actual.iter().filter(|(key, _)| !expected.contains_key(*key));
            found.extend(more.map(|(key, value)| Difference::of(below(key), None, Some(value.clone()))));
        }
        (Value::Array(expected), Value::Array(actual)) => {
            for at in 0..expected.len().max(actual.len()) {
                match (expected.get(at), actual.get(at)) {
                    (Some(expected), Some(actual)) => compare(&below(&at.to_string()), expected, actual, found),
                    (expected, actual) => {
                        found.push(Difference::of(below(&at.to_string()), expected.cloned(), actual.cloned()));
                    }
                }
            }
        }
        (expected, actual) if expected == actual => {}
        (expected, actual) => found.push(Difference::of(at, Some(expected.clone()), Some(actual.clone()))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn came(status: &str, data: Value, code: Option<&str>) -> Came {
        Came { status: status.into(), data, error: code.map(|code| (code.to_owned(), "why".to_owned())) }
    }

    fn told(expect: Value, came: &Came) -> Value {
        let test = read(&json!({"expect": expect}).to_string()).unwrap().remove(0);
        let schema = test.expect.schema.as_ref().map(|schema| Validator::new(schema).unwrap());
        json!(differences(&test.expect, schema.as_ref(), came))
    }

    #[test]
    fn an_outcome_is_compared_place_by_place() {
        let actual = came("succeeded", json!({"n": 2, "list": [1, 2, 3], "a/b": null}), None);
        assert_eq!(told(json!({"output": {"n": 2, "list": [1, 2, 3], "a/b": null}}), &actual), json!([]));
        assert_eq!(
            told(json!({"output": {"n": 3, "list": [1, 5], "gone": true}}), &actual),
            json!([
                {"at": "output/n", "expected": 3, "actual": 2},
                {"at": "output/list/1", "expected": 5, "actual": 2},
                {"at": "output/list/2", "actual": 3},
                {"at": "output/gone", "expected": true},
                {"at": "output/a~1b", "actual": null},
            ])
        );
        assert_eq!(told(json!({"schema": {"required": ["n"]}}), &actual), json!([]));
        let broken = told(json!({"schema": {"properties": {"n": {"minimum": 5}}}}), &actual);
        assert_eq!((&broken[0]["at"], &broken[0]["actual"]), (&json!("output/n"), &json!(2)));
        assert!(broken[0]["rule"].as_str().unwrap().contains('5'), "{broken}");
    }

    #[test]
    fn status_and_code_are_compared() {
        let failed = came("failed", Value::Null, Some("TIMEOUT"));
        assert_eq!(told(json!({"error": "TIMEOUT"}), &failed), json!([]));
        assert_eq!(told(json!({"status": "failed"}), &failed), json!([]));
        let other = told(json!({"error": "ENGINE_FAILED"}), &failed);
        assert_eq!(other, json!([{"at": "error", "expected": "ENGINE_FAILED", "actual": "TIMEOUT"}]));
        let output = told(json!({"output": {}}), &failed);
        assert_eq!(output, json!([{"at": "status", "expected": "succeeded", "actual": "failed"}]));
        let none = told(json!({"error": "X"}), &came("succeeded", json!({}), None));
        assert_eq!(none, json!([{"at": "error", "expected": "X"}]));
        assert_eq!(told(json!({"status": "refused"}), &came("refused", Value::Null, Some("X"))), json!([]));
    }

    #[test]
    fn what_is_wrong_with_a_test_is_said() {
        for (text, told) in [
            ("{", "it is not JSON"),
            ("{}", "missing field `expect`"),
            (r#"{"expect": {}}"#, "expect says nothing"),
            (r#"{"expect": {"output": 1}, "inputs": {}}"#, "inputs"),
            (r#"[{"expect": {"output": 1}}, {"expect": {"statuss": "failed"}}]"#, "test 2: expect.statuss"),
            (r#"{"expect": {"status": "won"}}"#, "\"won\" is none of"),
            (r#"{"expect": {"output": 1, "error": "X"}}"#, "only a run that succeeded"),
            (r#"{"expect": {"output": 1}, "recording": [1]}"#, "recording: 1 is not a path"),
            (r#"{"expect": {"output": 1}, "engine": "gpt"}"#, "engine"),
        ] {
            let wrong = read(text).unwrap_err();
            assert!(wrong.contains(told), "{text}: {wrong}");
        }
        let two = r#"[{"expect": {"output": null}}, {"recording": "a", "expect": {"status": "failed"}}]"#;
        let two = read(two).unwrap();
        assert_eq!(
            (two.len(), &two[0].expect.output, &two[1].recording),
            (2, &Some(Value::Null), &vec!["a".to_owned()])
        );
    }
}
