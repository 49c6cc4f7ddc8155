//! A script's answer: the protocol envelope on standard output.

use serde_json::{Map, Value};

use crate::domain::codes::ErrorCode;
use crate::domain::event::ValidationError;

/// The answer of a script.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It succeeded with this data.
    Success {
        /// What the output schema checks.
        data: Value,
    },
    /// It failed, with its own error.
    Failure(AnswerError),
    /// JSON that is not an envelope of the protocol.
    NotAnEnvelope(Vec<ValidationError>),
}

/// The error of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerError {
    /// One of the protocol's codes or the skill's own.
    pub(crate) code: String,
    /// The message for people.
    pub(crate) message: String,
    /// Anything else about it.
    pub(crate) details: Map<String, Value>,
}

/// What a script that was asked for an unknown action says it can do.
const SUPPORTED_ACTIONS: &str = "supported_actions";

/// Longest code taken from a script.
const CODE_MAX: usize = 100;

pub(crate) fn read_answer(value: &Value) -> Answer {
    let wrong = |path: &str, message: &str| {
        Answer::NotAnEnvelope(vec![ValidationError { path: path.to_owned(), message: message.to_owned() }])
    };
    let Value::Object(envelope) = value else {
        return wrong("", "the answer must be one JSON object with \"success\"");
    };
    match envelope.get("success") {
        Some(Value::Bool(true)) => {
            Answer::Success { data: envelope.get("data").cloned().unwrap_or_else(|| Value::Object(Map::new())) }
        }
        Some(Value::Bool(false)) => match envelope.get("error") {
            Some(Value::Object(error)) => failure(error),
            _ => wrong("/error", "a failure must carry an \"error\" object with \"code\" and \"message\""),
        },
        _ => wrong("/success", "\"success\" must be true or false"),
    }
}

fn failure(error: &Map<String, Value>) -> Answer {
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let code: String = text("code").chars().take(CODE_MAX).collect();
    let mut details = match error.get("details") {
        Some(Value::Object(details)) => details.clone(),
        None | Some(Value::Null) => Map::new(),
        Some(other) => Map::from_iter([("details".to_owned(), other.clone())]),
    };
    if let Some(actions) = error.get(SUPPORTED_ACTIONS).filter(|actions| !actions.is_null()) {
        details.entry(SUPPORTED_ACTIONS).or_insert_with(|| actions.clone());
    }
    Answer::Failure(AnswerError {
        code: if code.trim().is_empty() { ErrorCode::InternalError.as_str().to_owned() } else { code },
        message: text("message").to_owned(),
        details,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_keeps_its_code_message_and_details() {
        let answer = read_answer(
            &json!({"success": false, "error": {"code": "DATA_NOT_FOUND", "message": "none", "details": {"days": 7}}}),
        );
        let details = Map::from_iter([("days".to_owned(), json!(7))]);
        let expected = AnswerError { code: "DATA_NOT_FOUND".into(), message: "none".into(), details };
        assert_eq!(answer, Answer::Failure(expected));
    }

    #[test]
    fn the_actions_that_a_script_supports_are_kept() {
        let answer = read_answer(
            &json!({"success": false, "error": {"code": "UNSUPPORTED_ACTION", "message": "x", "supported_actions": ["run"]}}),
        );
        let details = Map::from_iter([("supported_actions".to_owned(), json!(["run"]))]);
        let expected = AnswerError { code: "UNSUPPORTED_ACTION".into(), message: "x".into(), details };
        assert_eq!(answer, Answer::Failure(expected));
    }

    #[test]
    fn json_that_is_not_the_envelope_says_what_is_missing() {
        let path = |value: Value| match read_answer(&value) {
            Answer::NotAnEnvelope(errors) => errors[0].path.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(path(json!([1])), "");
        assert_eq!(path(json!({"data": {}})), "/success");
        assert_eq!(path(json!({"success": "yes"})), "/success");
        assert_eq!(path(json!({"success": false})), "/error");
    }
}
