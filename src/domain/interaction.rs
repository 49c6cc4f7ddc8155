//! A question the engine asks its user.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Yes or no.
    Confirm,
    /// Values for named fields.
    FillFields,
    /// Any text.
    OpenText,
    /// A risk to be acknowledged.
    RiskAck,
}

/// One answer to choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InteractionOption {
    /// What people read.
    pub label: String,
    /// What the engine gets.
    pub value: Value,
}

/// A question; data of `user.input.required`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    /// Its number.
    pub interaction_id: InteractionId,
    /// What sort of answer is wanted.
    pub kind: InteractionKind,
    /// The question itself.
    pub prompt: String,
    /// The answers to choose from.
    pub options: Vec<InteractionOption>,
    /// Hints for front ends, passed through.
    pub ui_hints: Value,
    /// Fields an answer must have.
    pub required_fields: Vec<String>,
    /// What decides when nobody answers in time.
    pub default_decision_policy: String,
    /// Anything the engine added.
    pub context: Value,
}
