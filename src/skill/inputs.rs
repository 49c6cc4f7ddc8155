//! What a caller gives to a run: inline values checked against the schemas, files found by strict key match.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value};

use super::checked::Skill;
use super::finding::escape;
use super::input_schema::{is_closed, properties};
use super::manifest::EntrypointKind;
use super::schema::{Validator, Violation};
use crate::domain::codes::ErrorCode;
use crate::domain::request::Defaults;

/// The action of a script when nobody names one.
const DEFAULT_ACTION: &str = "run";

/// A request the skill cannot take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Rejection {
    pub(crate) code: ErrorCode,
    /// What was wrong and what to do.
    pub(crate) message: String,
    /// The places in the body of the request.
    pub(crate) details: Vec<Violation>,
}

/// Required files that were not uploaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("missing input files: {}", keys.join(", "))]
pub struct MissingFiles {
    pub(crate) keys: Vec<String>,
}

/// Checks what is given as JSON; nothing given is an empty object.
pub fn check_request(skill: &Skill, input: Option<&Value>, parameter: Option<&Value>) -> Result<(), Rejection> {
    let input = object(input, ErrorCode::InputValidationFailed, "input")?;
    let parameter = object(parameter, ErrorCode::ParameterValidationFailed, "parameter")?;
    refuse_inline_files(skill, &input)?;
    refuse_unknown_keys(skill, &input)?;
    check(&skill.checks.inline_input, input, ErrorCode::InputValidationFailed, "input")?;
    let parameter = without_reserved_action(skill, parameter);
    check(&skill.checks.parameter, parameter, ErrorCode::ParameterValidationFailed, "parameter")
}

/// What the schemas supply of what is not given. A file has no default: it is uploaded or not.
pub(crate) fn defaults(skill: &Skill, input: &Map<String, Value>, parameter: &Map<String, Value>) -> Defaults {
    let files: BTreeSet<String> =
        skill.file_fields().into_iter().chain(skill.rest_field()).map(|field| field.name).collect();
    let mut supplied = Defaults::default();
    supply(&skill.input_schema, input, "", &files, &mut supplied.input);
    supply(&skill.parameter_schema, parameter, "", &BTreeSet::new(), &mut supplied.parameter);
    supplied
}

fn supply(
    schema: &Value,
    given: &Map<String, Value>,
    at: &str,
    but: &BTreeSet<String>,
    supplied: &mut BTreeMap<String, Value>,
) {
    for (name, field) in properties(schema).filter(|(name, _)| !but.contains(*name)) {
        let place = format!("{at}/{}", escape(name));
        match (given.get(name), field.get("default")) {
            (None, Some(default)) => {
                supplied.insert(place, default.clone());
            }
            (Some(Value::Object(inner)), _) => supply(field, inner, &place, &BTreeSet::new(), supplied),
            (None, None) | (Some(_), _) => {}
        }
    }
}

/// Whether what is given is checked so soon that nobody is held up.
pub(crate) fn is_quick(skill: &Skill, input: &Map<String, Value>, parameter: &Map<String, Value>) -> bool {
    let quick = |validator: &Validator, fields: &Map<String, Value>| {
        fields.is_empty() || validator.is_quick(&Value::Object(fields.clone()))
    };
    quick(&skill.checks.inline_input, input) && quick(&skill.checks.parameter, parameter)
}

/// The run's input: files as absolute paths below `uploads_dir`, inline values as they are.
pub fn resolve(
    skill: &Skill,
    input: Option<&Value>,
    uploads_dir: &Path,
    uploaded: &BTreeSet<String>,
) -> Result<Map<String, Value>, MissingFiles> {
    let mut resolved = input.and_then(Value::as_object).cloned().unwrap_or_default();
    let mut missing = Vec::new();
    for field in skill.file_fields() {
        // A string in the JSON is never a substitute for the file.
        resolved.shift_remove(&field.name);
        if uploaded.contains(&field.name) {
            let path = uploads_dir.join(&field.name).to_string_lossy().into_owned();
            resolved.insert(field.name, Value::String(path));
        } else if field.required {
            missing.push(field.name);
        }
    }
    if let Some(field) = skill.rest_field() {
        resolved.shift_remove(&field.name);
        let named: BTreeSet<String> = skill.file_fields().into_iter().map(|field| field.name).collect();
        let rest: Vec<&String> = uploaded.iter().filter(|name| !named.contains(*name)).collect();
        if rest.is_empty() && field.required {
            missing.push(field.name);
        } else {
            let paths = rest.into_iter().map(|name| uploads_dir.join(name).to_string_lossy().into_owned().into());
            resolved.insert(field.name, Value::Array(paths.collect()));
        }
    }
    if missing.is_empty() { Ok(resolved) } else { Err(MissingFiles { keys: missing }) }
}

/// A script's `params`: input and parameter side by side; where both have a name, the parameter wins.
pub fn script_params(input: &Map<String, Value>, parameter: Option<&Value>) -> Map<String, Value> {
    let mut params = input.clone();
    params.extend(parameter.and_then(Value::as_object).cloned().unwrap_or_default());
    params
}

/// A script's `action`: the caller's, else the manifest's, else `run`.
pub(crate) fn script_action(skill: &Skill, parameter: Option<&Value>) -> String {
    let asked = parameter.and_then(|parameter| parameter.get("action")).and_then(Value::as_str);
    let declared = skill.manifest.entrypoint.script.as_ref().and_then(|script| script.action.as_deref());
    asked.or(declared).unwrap_or(DEFAULT_ACTION).into()
}

fn object(value: Option<&Value>, code: ErrorCode, what: &str) -> Result<Map<String, Value>, Rejection> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields.clone()),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => Err(Rejection {
            code,
            message: format!("`{what}` is not a JSON object; send its fields as {{\"name\": value}}"),
            details: vec![Violation { path: format!("/{what}"), message: "an object is expected".into() }],
        }),
    }
}

fn refuse_inline_files(skill: &Skill, input: &Map<String, Value>) -> Result<(), Rejection> {
    let fields = skill.file_fields().into_iter().chain(skill.rest_field());
    let given: Vec<String> = fields.map(|field| field.name).filter(|name| input.contains_key(name)).collect();
    if given.is_empty() {
        return Ok(());
    }
    let keys = given.join(", ");
    Err(Rejection {
        code: ErrorCode::FileInputInline,
        message: format!(
            "{keys} is a file and cannot be given in `input`; leave it out there and upload it in a part of that name, or \
             in a zip under that name"
        ),
        details: at_each(&given, "it is a file: upload it"),
    })
}

fn refuse_unknown_keys(skill: &Skill, input: &Map<String, Value>) -> Result<(), Rejection> {
    let schema = &skill.input_schema;
    let known: BTreeSet<&String> = properties(schema).map(|(name, _)| name).collect();
    let unknown: Vec<String> = input.keys().filter(|key| !known.contains(key)).cloned().collect();
    if !is_closed(schema) || unknown.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
    let fields = if names.is_empty() { "no input fields".into() } else { format!("the fields {}", names.join(", ")) };
    Err(Rejection {
        code: ErrorCode::UnknownInputKey,
        message: format!("{} is not an input of {}, which has {fields}", unknown.join(", "), skill.id),
        details: at_each(&unknown, "the skill has no such input"),
    })
}

/// `parameter.action` chooses a script's action, so it may be given although the schema does not name it.
fn without_reserved_action(skill: &Skill, mut parameter: Map<String, Value>) -> Map<String, Value> {
    let runs_a_script = match skill.manifest.entrypoint.kind {
        EntrypointKind::Script | EntrypointKind::Hybrid => true,
        EntrypointKind::Prompt => false,
    };
    let declared = properties(&skill.parameter_schema).any(|(name, _)| name == "action");
    if runs_a_script && !declared && parameter.get("action").is_some_and(Value::is_string) {
        parameter.shift_remove("action");
    }
    parameter
}

fn check(validator: &Validator, fields: Map<String, Value>, code: ErrorCode, what: &str) -> Result<(), Rejection> {
    let in_body = |violation: Violation| Violation { path: format!("/{what}{}", violation.path), ..violation };
    let found = validator.errors(&Value::Object(fields)).map_err(|costly| Rejection {
        code: ErrorCode::SchemaTooCostly,
        message: format!("`{what}` is not taken: {costly}; send less of it, or simplify the skill's schema"),
        details: vec![in_body(costly.into())],
    })?;
    let details: Vec<Violation> = found.into_iter().map(in_body).collect();
    let Some(first) = details.first() else { return Ok(()) };
    let place = if first.path.matches('/').count() < 2 { String::new() } else { format!(" at {}", first.path) };
    let more = if details.len() > 1 { format!(" (and {} more)", details.len() - 1) } else { String::new() };
    let message = format!("`{what}` does not match the skill's schema{place}: {}{more}", first.message);
    Err(Rejection { code, message, details })
}

/// One violation for each of these fields of `input`.
fn at_each(keys: &[String], message: &str) -> Vec<Violation> {
    keys.iter().map(|key| Violation { path: format!("/input/{}", escape(key)), message: message.into() }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::lint::tests::Draft;
    use super::*;

    fn skill() -> Skill {
        Draft::script()
            .json(
                "assets/input.schema.json",
                &json!({ "type": "object", "required": ["doc", "title"], "properties": {
                "doc": { "type": "string" },
                "extra": { "x-input-source": "file" },
                "title": { "type": "string", "x-input-source": "inline" }
            } }),
            )
            .json(
                "assets/parameter.schema.json",
                &json!({
                    "type": "object", "additionalProperties": false, "properties": { "depth": { "type": "integer" } }
                }),
            )
            .skill()
    }

    fn violation(path: &str, message: &str) -> Violation {
        Violation { path: path.into(), message: message.into() }
    }

    #[test]
    fn a_file_is_never_required_of_the_json() {
        assert_eq!(check_request(&skill(), Some(&json!({ "title": "x" })), None), Ok(()));
        assert_eq!(check_request(&skill(), Some(&json!({ "title": "x" })), Some(&json!({ "depth": 2 }))), Ok(()));
    }

    #[test]
    fn an_action_may_be_named_although_the_schema_is_closed() {
        let input = json!({ "title": "x" });
        assert_eq!(check_request(&skill(), Some(&input), Some(&json!({ "action": "check" }))), Ok(()));
        assert_eq!(script_action(&skill(), Some(&json!({ "action": "check" }))), "check");
        assert_eq!(script_action(&skill(), None), "run");
        assert!(check_request(&skill(), Some(&input), Some(&json!({ "action": 1 }))).is_err());
    }

    #[test]
    fn each_broken_rule_has_its_code_and_its_places() {
        let cases = [
            (
                json!({ "doc": "a.txt", "title": "x" }),
                None,
                "FILE_INPUT_INLINE",
                violation("/input/doc", "it is a file: upload it"),
            ),
            (
                json!({ "tilte": "x" }),
                None,
                "UNKNOWN_INPUT_KEY",
                violation("/input/tilte", "the skill has no such input"),
            ),
            (
                json!({ "title": 1 }),
                None,
                "INPUT_VALIDATION_FAILED",
                violation("/input/title", "1 is not of type \"string\""),
            ),
            (json!({}), None, "INPUT_VALIDATION_FAILED", violation("/input", "\"title\" is a required property")),
            (json!([]), None, "INPUT_VALIDATION_FAILED", violation("/input", "an object is expected")),
            (
                json!({ "title": "x" }),
                Some(json!({ "depth": "2" })),
                "PARAMETER_VALIDATION_FAILED",
                violation("/parameter/depth", "\"2\" is not of type \"integer\""),
            ),
            (
                json!({ "title": "x" }),
                Some(json!(3)),
                "PARAMETER_VALIDATION_FAILED",
                violation("/parameter", "an object is expected"),
            ),
        ];
        for (input, parameter, code, detail) in cases {
            let rejection = check_request(&skill(), Some(&input), parameter.as_ref()).unwrap_err();
            assert_eq!((rejection.code.as_str(), rejection.details), (code, vec![detail]), "{input}");
        }
    }

    #[test]
    fn files_are_found_by_their_exact_key_and_a_string_never_stands_for_one() {
        let input = json!({ "title": "x", "doc": "/etc/passwd" });
        let uploads = Path::new("/runs/1/uploads");
        let uploaded = |names: &[&str]| names.iter().map(|name| String::from(*name)).collect::<BTreeSet<_>>();
        assert_eq!(
            resolve(&skill(), Some(&input), uploads, &uploaded(&["doc.txt", "Doc"])),
            Err(MissingFiles { keys: vec!["doc".into()] })
        );
        assert_eq!(
            resolve(&skill(), Some(&input), uploads, &uploaded(&["doc", "stray"])).map(Value::Object),
            Ok(json!({ "title": "x", "doc": "/runs/1/uploads/doc" }))
        );
    }

    #[test]
    fn a_parameter_wins_over_an_input_of_the_same_name() {
        let input = json!({ "a": 1, "b": 1 });
        let params = script_params(input.as_object().unwrap(), Some(&json!({ "b": 2, "c": 2 })));
        assert_eq!(Value::Object(params), json!({ "a": 1, "b": 2, "c": 2 }));
    }

    #[test]
    fn defaults_of_the_schemas_fill_what_is_left_out_and_nothing_else() {
        let skill = Draft::script()
            .json(
                "assets/input.schema.json",
                &json!({ "type": "object", "properties": {
                    "doc": { "type": "string", "default": "x" },
                    "lang": { "x-input-source": "inline", "default": "en" },
                    "page": { "x-input-source": "inline", "type": "object",
                        "properties": { "size/of": { "default": "A4" }, "dark": { "default": false } } }
                } }),
            )
            .json(
                "assets/parameter.schema.json",
                &json!({ "type": "object", "properties": { "depth": { "type": "integer", "default": 2 } } }),
            )
            .skill();
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let (mut input, mut parameter) = (map(json!({ "page": { "dark": true } })), Map::new());
        let supplied = defaults(&skill, &input, &parameter);
        supplied.fill(&mut input, &mut parameter);
        assert_eq!(Value::Object(input), json!({ "page": { "dark": true, "size/of": "A4" }, "lang": "en" }));
        assert_eq!(Value::Object(parameter), json!({ "depth": 2 }));
        let recorded = json!({ "input": { "/lang": "en", "/page/size~1of": "A4" }, "parameter": { "/depth": 2 } });
        assert_eq!(json!(supplied), recorded);
        let given = map(json!({ "lang": "de" }));
        assert!(defaults(&skill, &given, &map(json!({ "depth": 3 }))).is_empty());
    }

    #[test]
    fn an_open_schema_takes_any_inline_field() {
        let skill = Draft::script()
            .json("assets/input.schema.json", &json!({ "type": "object", "additionalProperties": true }))
            .skill();
        assert_eq!(check_request(&skill, Some(&json!({ "anything": [1] })), None), Ok(()));
    }
}
