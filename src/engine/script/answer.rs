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
        /// `message` and `metadata`, if it has them.
        remarks: Map<String, Value>,
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

/// What a success may say for people and for measurements.
const MESSAGE: &str = "message";
const METADATA: &str = "metadata";

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
            let data = envelope.get("data").cloned().unwrap_or_else(|| Value::Object(Map::new()));
            Answer::Success { data, remarks: remarks(envelope) }
        }
        Some(Value::Bool(false)) => match envelope.get("error") {
            Some(Value::Object(error)) => failure(error),
            _ => wrong("/error", "a failure must carry an \"error\" object with \"code\" and \"message\""),
        },
        _ => wrong("/success", "\"success\" must be true or false"),
    }
}

/// What a success says besides its data; a member of another type is left in the raw output.
fn remarks(envelope: &Map<String, Value>) -> Map<String, Value> {
    let message = envelope.get(MESSAGE).filter(|message| message.is_string());
    let metadata = envelope.get(METADATA).filter(|metadata| metadata.is_object());
    let given = [(MESSAGE, message), (METADATA, metadata)].into_iter();
    given.filter_map(|(name, value)| Some((name.to_owned(), value?.clone()))).collect()
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
    fn a_success_keeps_its_message_and_metadata_and_nothing_of_another_type() {
        let remarks = |value: Value| match read_answer(&value) {
            Answer::Success { data, remarks } => (data, Value::Object(remarks)),
            other => panic!("{other:?}"),
        };
        let both = json!({"message": "done", "metadata": {"execution_time_ms": 1234}});
        let answer =
            json!({"success": true, "data": {"n": 1}, "message": "done", "metadata": {"execution_time_ms": 1234}});
        assert_eq!(remarks(answer), (json!({"n": 1}), both));
        assert_eq!(remarks(json!({"success": true, "message": 7, "metadata": []})), (json!({}), json!({})));
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
