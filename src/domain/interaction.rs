//! A question the engine asks its user.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::validation::ValidationError;

/// Number of a question within its run: 1, 2, 3, ….
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InteractionId(pub u64);

impl fmt::Display for InteractionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What sort of answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InteractionKind {
    /// One of the options.
    ChooseOne,
    Confirm,
    /// Values for named fields.
    FillFields,
    OpenText,
    /// A risk to be acknowledged.
    RiskAck,
}

/// One answer to choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InteractionOption {
    pub(crate) label: String,
    /// What the engine gets.
    pub value: Value,
}

/// A question; data of `user.input.required`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    pub interaction_id: InteractionId,
    /// What sort of answer is wanted.
    pub kind: InteractionKind,
    pub(crate) prompt: String,
    /// The answers to choose from.
    pub options: Vec<InteractionOption>,
    /// Hints for front ends, passed through.
    pub(crate) ui_hints: Value,
    /// Fields an answer must have.
    pub(crate) required_fields: Vec<String>,
    /// What decides when nobody answers in time.
    pub(crate) default_decision_policy: String,
    /// Anything the engine added.
    pub(crate) context: Value,
}

impl Interaction {
    /// Whether only what the question offers is an answer. Else options and fields help whoever draws it, and an answer in
    /// other words is handed on as it is.
    pub(crate) fn is_strict(&self) -> bool {
        self.kind == InteractionKind::RiskAck || self.ui_hints.get("strict") == Some(&Value::Bool(true))
    }

    /// What is wrong with an answer to this question; nothing for a fitting one.
    pub(crate) fn flaws(&self, response: &Value) -> Vec<ValidationError> {
        if !self.is_strict() {
            return vec![];
        }
        let flaw = |path: String, message: String| ValidationError { path, message };
        let plain = response.as_str().map(str::to_lowercase);
        match self.kind {
            InteractionKind::ChooseOne => {
                let fits = self.options.iter().any(|option| option.value == *response || response == &option.label);
                let offered: Vec<String> = self.options.iter().map(|option| option.value.to_string()).collect();
                if fits {
                    vec![]
                } else {
                    vec![flaw("/response".into(), format!("must be one of {}", offered.join(", ")))]
                }
            }
            InteractionKind::RiskAck => {
                let words = ["true", "false", "yes", "no", "acknowledge", "decline"];
                let fits = response.is_boolean() || plain.is_some_and(|plain| words.contains(&plain.as_str()));
                if fits {
                    vec![]
                } else {
                    vec![flaw("/response".into(), "must be true or false (or acknowledge or decline)".into())]
                }
            }
            InteractionKind::Confirm => {
                let fits = response.is_boolean() || matches!(plain.as_deref(), Some("yes" | "no" | "true" | "false"));
                if fits {
                    vec![]
                } else {
                    vec![flaw("/response".into(), "must be true or false (or yes or no)".into())]
                }
            }
            InteractionKind::FillFields => {
                let Value::Object(fields) = response else {
                    let names = self.required_fields.join(", ");
                    return vec![flaw("/response".into(), format!("must be an object with {names}"))];
                };
                let empty = |name: &&String| fields.get(*name).is_none_or(|value| value.is_null() || value == "");
                let missing = self.required_fields.iter().filter(empty);
                missing.map(|name| flaw(format!("/response/{name}"), "is required".into())).collect()
            }
            // Nothing is an answer, too.
            InteractionKind::OpenText => vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_must_fit_a_strict_question_alone() {
        let ask = |kind, ui_hints: Value| Interaction {
            interaction_id: InteractionId(1),
            kind,
            prompt: "?".into(),
            options: [("Red", "r"), ("Green", "g")]
                .map(|(label, value)| InteractionOption { label: label.into(), value: json!(value) })
                .into(),
            ui_hints,
            required_fields: vec!["name".into()],
            default_decision_policy: String::new(),
            context: Value::Null,
        };
        let fits = |kind, response: Value| ask(kind, json!({"strict": true})).flaws(&response).is_empty();
        assert!(fits(InteractionKind::ChooseOne, json!("r")) && fits(InteractionKind::ChooseOne, json!("Red")));
        assert!(!fits(InteractionKind::ChooseOne, json!("blue")));
        assert!(fits(InteractionKind::Confirm, json!(true)) && fits(InteractionKind::RiskAck, json!("No")));
        assert!(!fits(InteractionKind::Confirm, json!("perhaps")));
        assert!(fits(InteractionKind::FillFields, json!({"name": "Ann"})));
        assert!(
            !fits(InteractionKind::FillFields, json!({"name": ""})) && !fits(InteractionKind::FillFields, json!("Ann"))
        );
        assert!([json!(3), json!(""), json!(null)].into_iter().all(|answer| fits(InteractionKind::OpenText, answer)));
        let freely = |kind, response: Value| ask(kind, json!({"strict": false})).flaws(&response).is_empty();
        for kind in [InteractionKind::ChooseOne, InteractionKind::Confirm, InteractionKind::FillFields] {
            assert!(freely(kind, json!("something else")) && freely(kind, json!(null)), "{kind:?}");
        }
        assert!(!freely(InteractionKind::RiskAck, json!("something else")));
        assert!(["acknowledge", "Decline"].into_iter().all(|word| freely(InteractionKind::RiskAck, json!(word))));
    }
}
