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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
