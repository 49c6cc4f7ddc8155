//! A refused request, told in the flags that made it.

use serde_json::Value;

use crate::cli::failure::Failure;
use crate::domain::codes::ErrorCode;

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
    let flag = if code == ErrorCode::InputValidationFailed {
        Some("--input")
    } else if code == ErrorCode::ParameterValidationFailed {
        Some("--param")
    } else {
        None
    };
    for detail in details.as_array_mut().into_iter().flatten() {
        if let (Some(flag), Some(path)) = (flag, detail["path"].as_str().filter(|path| !path.is_empty())) {
            detail["path"] = Value::String(named(flag, path));
        }
    }
    Failure::Refused { code, message, details }
}

/// `/items/0` is `--input items, at /0`.
fn named(flag: &str, path: &str) -> String {
    let rest = path.trim_start_matches('/');
    match rest.split_once('/') {
        Some((name, below)) => format!("{flag} {name}, at /{below}"),
        None => format!("{flag} {rest}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_speaks_of_flags() {
        let details = json!([{"path": "/n", "message": "no"}, {"path": "/list/0", "message": "no"}, {"path": "", "message": "no"}]);
        let (code, message) = ("INPUT_VALIDATION_FAILED".to_owned(), "leave \"model\" out".to_owned());
        let Failure::Refused { message, details, .. } = in_flags(Failure::Refused { code, message, details }) else {
            panic!("it is a refusal");
        };
        assert_eq!(message, "leave --model out");
        let paths: Vec<&str> =
            details.as_array().unwrap().iter().filter_map(|detail| detail["path"].as_str()).collect();
        assert_eq!(paths, ["--input n", "--input list, at /0", ""]);
    }
}
