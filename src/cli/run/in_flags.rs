//! A refused request, told in the flags that made it.

use serde_json::Value;

use crate::cli::failure::Failure;

/// Words of the API, and the flags that mean the same.
const WORDS: [(&str, &str); 6] = [
    ("leave \"model\" out", "leave --model out"),
    ("execution_mode \"interactive\"", "--interactive"),
    ("execution_mode \"auto\"", "a run without --interactive"),
    ("runtime_options.hard_timeout_seconds", "--timeout"),
    ("hard_timeout_seconds", "--timeout"),
    ("POST …/upload", "--file KEY=PATH"),
];

pub(super) fn in_flags(failure: Failure) -> Failure {
    let Failure::Refused { code, message, mut details } = failure else { return failure };
    let message = WORDS.iter().fold(message, |message, (word, flag)| message.replace(word, flag));
    for detail in details.as_array_mut().into_iter().flatten() {
        if let Some(named) = detail["path"].as_str().and_then(named) {
            let as_text = detail["message"].as_str().and_then(|message| as_text(&named, message));
            if let Some(message) = as_text {
                detail["message"] = Value::String(message);
            }
            detail["path"] = Value::String(named);
        }
    }
    Failure::Refused { code, message, details }
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
