//! What is recorded of one run: each action with what was asked and what was answered. No header is, so no token is.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::bounded;
use crate::domain::time::Timestamp;

/// The version of the format.
pub(super) const FORMAT: u32 = 1;
/// Most bytes of a body that are recorded.
const BODY_MAX: usize = 256 * 1024;
/// Most steps of one recording; later ones are not recorded.
pub(super) const STEPS_MAX: usize = 500;

/// What a person did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    Create,
    Upload,
    Reply,
    ResultRead,
}

/// Everything that was recorded of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recording {
    pub(super) format: u32,
    /// The run, as the service answered its creation.
    pub(super) request_id: String,
    /// The skill; none if it came with the run.
    pub(super) skill_id: Option<String>,
    /// The address of the service.
    pub(super) service: String,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) at: Timestamp,
    pub(super) action: Action,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) request: Content,
    /// The files of an upload, without their content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<SentFile>,
    pub(super) status: u16,
    pub(super) answer: Content,
}

/// A body, as far as it is recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    pub(super) bytes: u64,
    /// The JSON; none if there was nothing, something else, or too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) json: Option<Value>,
    /// The hash of a body that is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
}

/// A file of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SentFile {
    pub(super) field: String,
    pub(super) file_name: Option<String>,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Content {
    pub(super) fn of(body: &[u8]) -> Self {
        let bytes = body.len() as u64;
        let json = if body.len() <= BODY_MAX { bounded::json::from_slice(body).ok() } else { None };
        let left_out = json.is_none() && !body.is_empty();
        Self { bytes, json, sha256: left_out.then(|| hex::encode(Sha256::digest(body))) }
    }

    /// A text of the body's JSON.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.json.as_ref()?.get(name)?.as_str().map(str::to_owned)
    }
}

impl Recording {
    pub(super) fn new(request_id: String, service: String) -> Self {
        Self { format: FORMAT, request_id, skill_id: None, service, steps: Vec::new() }
    }

    /// Adds a step; false if there is nothing to add: the same result was read before, or there are too many steps.
    pub(super) fn add(&mut self, step: Step) -> bool {
        let known = |before: &Step| {
            before.action == Action::ResultRead && (before.status, &before.answer) == (step.status, &step.answer)
        };
        if self.steps.len() >= STEPS_MAX || (step.action == Action::ResultRead && self.steps.iter().any(known)) {
            return false;
        }
        if step.action == Action::Create {
            self.skill_id = step.request.text("skill_id").or(self.skill_id.take());
        }
        self.steps.push(step);
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(action: Action, answer: &Value) -> Step {
        Step {
            at: Timestamp::from_micros(0),
            action,
            method: "GET".to_owned(),
            path: "/v1/jobs".to_owned(),
            request: Content::of(br#"{"skill_id": "demo-echo"}"#),
            files: Vec::new(),
            status: 200,
            answer: Content::of(answer.to_string().as_bytes()),
        }
    }

    #[test]
    fn the_same_result_is_recorded_once_and_steps_are_bounded() {
        let mut recording = Recording::new("x".to_owned(), "y".to_owned());
        assert!(recording.add(step(Action::Create, &json!({}))));
        assert_eq!(recording.skill_id.as_deref(), Some("demo-echo"));
        assert!(recording.add(step(Action::ResultRead, &json!({"a": 1}))));
        assert!(
            !recording.add(step(Action::ResultRead, &json!({"a": 1}))),
            "a page that is loaded again reads it again"
        );
        assert!(recording.add(step(Action::ResultRead, &json!({"a": 2}))));
        while recording.steps.len() < STEPS_MAX {
            assert!(recording.add(step(Action::Reply, &json!({}))));
        }
        assert!(!recording.add(step(Action::Reply, &json!({}))));
    }

    #[test]
    fn a_body_is_recorded_as_json_or_by_its_length_and_hash() {
        assert_eq!(Content::of(b"{\"a\":1}"), Content { bytes: 7, json: Some(json!({"a": 1})), sha256: None });
        assert_eq!(Content::of(b""), Content::default());
        let text = Content::of(b"no json");
        assert_eq!((text.bytes, text.json, text.sha256.map(|hash| hash.len())), (7, None, Some(64)));
        let long = Content::of(format!("\"{}\"", "x".repeat(BODY_MAX)).as_bytes());
        assert_eq!((long.json, long.sha256.is_some()), (None, true));
    }
}
