//! A refused request, told in the flags that made it.

use serde_json::Value;

use crate::cli::failure::Failure;
use crate::domain::codes::ErrorCode;

/// Words of the API, and the flags that mean the same.
const WORDS: [(&str, &str); 7] = [
    ("leave \"model\" out", "leave --model out"),
    ("\"model\" is empty", "--model is empty"),
    ("execution_mode \"interactive\"", "--interactive"),
    ("execution_mode \"auto\"", "a run without --interactive"),
    ("runtime_options.hard_timeout_seconds", "--timeout"),
    ("hard_timeout_seconds", "--timeout"),
    ("POST …/upload", "--file KEY=PATH"),
];

pub(super) fn in_flags(failure: Failure) -> Failure {
    let Failure::Refused { code, message, mut details } = failure else { return failure };
    let message = WORDS.iter().fold(message, |message, (word, flag)| message.replace(word, flag));
    let known = ErrorCode::from_text(&code);
    let message = match known {
        // The details say what does not match, and where.
        Some(ErrorCode::InputValidationFailed) if is_about_flags(&details) => DIFFERS.replace("VALUES", "--input"),
        Some(ErrorCode::ParameterValidationFailed) if is_about_flags(&details) => DIFFERS.replace("VALUES", "--param"),
        Some(code @ ErrorCode::FileInputInline) => code.info().hint.cli.to_owned(),
        Some(_) | None => message,
    };
    if known == Some(ErrorCode::SkillExecutionModeUnsupported) {
        // The message says all in flags.
        details = Value::Null;
    }
    for detail in details.as_array_mut().into_iter().flatten() {
        if let Some((path, message)) = detail["path"].as_str().zip(detail["message"].as_str()).and_then(missing) {
            (detail["path"], detail["message"]) = (Value::String(path), Value::String(message.to_owned()));
            continue;
        }
        if let Some(named) = detail["path"].as_str().and_then(named) {
            if known == Some(ErrorCode::FileInputInline) {
                let key = named.trim_start_matches("--input ").to_owned();
                detail["message"] = Value::String(format!("it is a file; give it with --file {key}=PATH"));
            }
            let as_text = detail["message"].as_str().and_then(|message| as_text(&named, message));
            if let Some(message) = as_text {
                detail["message"] = Value::String(message);
            }
            detail["path"] = Value::String(named);
        }
    }
    Failure::Refused { code, message, details }
}

/// What the details tell one by one.
const DIFFERS: &str = "VALUES does not match the skill's schema";

/// Whether each detail is about a value that a flag gave.
fn is_about_flags(details: &Value) -> bool {
    let places = details.as_array().map(Vec::as_slice).unwrap_or_default();
    !places.is_empty() && places.iter().all(|detail| detail["path"].as_str().and_then(named).is_some())
}

/// A value that was not given is told by the flag that gives it.
fn missing((path, message): (&str, &str)) -> Option<(String, &'static str)> {
    let flag = FLAGS.iter().find_map(|(member, flag)| (*member == path).then_some(flag))?;
    let name = message.strip_suffix(" is a required property")?.trim_matches('"');
    Some((format!("{flag} {name}=VALUE"), "is required"))
}

/// Members of the request's body, and the flags that fill them.
const FLAGS: [(&str, &str); 4] =
    [("/input", "--input"), ("/parameter", "--param"), ("/model", "--model"), ("/engine", "--engine")];

/// `/input/items/0` is `--input items, at /0`; none for a place that no flag fills.
fn named(path: &str) -> Option<String> {
    let (flag, rest) = FLAGS.iter().find_map(|(member, flag)| Some((flag, path.strip_prefix(member)?)))?;
    match rest.strip_prefix('/').map(|rest| rest.split_once('/').ok_or(rest)) {
        Some(Ok((name, below))) => Some(format!("{flag} {name}, at /{below}")),
        Some(Err(name)) => Some(format!("{flag} {name}")),
        None if rest.is_empty() => Some((*flag).to_owned()),
        None => None,
    }
}

/// How to give as text what was taken for JSON, behind the message that says that it is no text.
fn as_text(flag: &str, message: &str) -> Option<String> {
    let value = message.strip_suffix(" is not of type \"string\"")?;
    let is_of_a_field = !flag.contains(", at ") && flag.contains(' ');
    is_of_a_field.then(|| format!("{message}; to give it as text, write {flag}='\"{value}\"'"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_that_was_taken_for_json_can_be_given_as_text() {
        let told = |flag: &str, message: &str| as_text(flag, message);
        let message = "1 is not of type \"string\"";
        assert_eq!(
            told("--input text", message).as_deref(),
            Some("1 is not of type \"string\"; to give it as text, write --input text='\"1\"'")
        );
        for (flag, message) in
            [("--input list, at /0", message), ("--input", message), ("--param n", "\"x\" is not of type \"integer\"")]
        {
            assert_eq!(told(flag, message), None, "{flag}");
        }
    }

    /// A refusal as it is told: its message, and path and message of each detail.
    fn told(code: &str, details: &[(&str, &str)]) -> (String, Vec<String>) {
        let details = details.iter().map(|(path, message)| json!({"path": path, "message": message})).collect();
        let refused = Failure::Refused { code: code.to_owned(), message: "as in the API".to_owned(), details };
        let Failure::Refused { message, details, .. } = in_flags(refused) else { panic!("it is a refusal") };
        let line =
            |detail: &Value| format!("{}: {}", detail["path"].as_str().unwrap(), detail["message"].as_str().unwrap());
        (message, details.as_array().unwrap().iter().map(line).collect())
    }

    #[test]
    fn a_value_that_is_missing_wrong_or_a_file_is_told_with_the_flag_that_gives_it() {
        let (message, lines) = told(
            "INPUT_VALIDATION_FAILED",
            &[("/input", "\"text\" is a required property"), ("/input/n", "0 is too small")],
        );
        assert_eq!(message, "--input does not match the skill's schema");
        assert_eq!(lines, ["--input text=VALUE: is required", "--input n: 0 is too small"]);
        let (message, lines) = told("PARAMETER_VALIDATION_FAILED", &[("/parameter/k", "no")]);
        assert_eq!(
            (message.as_str(), lines),
            ("--param does not match the skill's schema", vec!["--param k: no".to_owned()])
        );
        let (message, lines) = told("FILE_INPUT_INLINE", &[("/input/doc", "it is a file: upload it")]);
        assert_eq!(message, "give the file with --file KEY=PATH instead of --input");
        assert_eq!(lines, ["--input doc: it is a file; give it with --file doc=PATH"]);
        let refused = Failure::Refused {
            code: "SKILL_EXECUTION_MODE_UNSUPPORTED".to_owned(),
            message: "skill x does not support execution_mode \"auto\"".to_owned(),
            details: json!([{"path": "/runtime_options/execution_mode", "message": "not a mode of the skill"}]),
        };
        let Failure::Refused { message, details, .. } = in_flags(refused) else { panic!("it is a refusal") };
        assert_eq!((message.as_str(), details), ("skill x does not support a run without --interactive", Value::Null));
        // A reply is no flag.
        let (message, _) = told("INPUT_VALIDATION_FAILED", &[("/response", "no")]);
        assert_eq!(message, "as in the API");
    }

    #[test]
    fn a_refusal_speaks_of_flags() {
        let places = ["/input/n", "/input/list/0", "/input", "/parameter/k", "/model", "/inputs", "/labels/a", ""];
        let details: Vec<Value> = places.iter().map(|path| json!({"path": path, "message": "no"})).collect();
        let details = Value::Array(details);
        let (code, message) = ("INPUT_VALIDATION_FAILED".to_owned(), "leave \"model\" out".to_owned());
        let Failure::Refused { message, details, .. } = in_flags(Failure::Refused { code, message, details }) else {
            panic!("it is a refusal");
        };
        assert_eq!(message, "leave --model out");
        let paths: Vec<&str> =
            details.as_array().unwrap().iter().filter_map(|detail| detail["path"].as_str()).collect();
        assert_eq!(
            paths,
            ["--input n", "--input list, at /0", "--input", "--param k", "--model", "/inputs", "/labels/a", ""]
        );
    }
}
