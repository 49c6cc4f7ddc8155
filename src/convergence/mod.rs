//! From an engine's raw output to a validated result: candidate, validation, the normalization ladder.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod extract;
mod question;
mod scan;
#[cfg(test)]
mod tests;
mod turn;

pub use question::Question;
pub use turn::{DONE_MARKER, Decision, TurnWords, WordsDecision, decide_turn, decide_words};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::skill::schema::{Validator, Violation};

pub use crate::domain::event::NormalizationLevel as Level;

/// The rungs of the ladder, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepName {
    /// Read as it stood.
    AsIs,
    /// A byte order mark was removed.
    RemoveBom,
    /// The inside of a code fence was taken.
    RemoveFences,
    /// The text around the value was left out.
    RemoveProse,
    /// Commas before closing brackets were removed.
    TrailingCommas,
    /// Typographic quotes around strings were made straight.
    SmartQuotes,
    /// Brackets still open at the very end were closed.
    CloseBrackets,
    /// Looked for a value and found none.
    Extract,
    /// Checked against the output schema.
    Validate,
    /// The skill's normalizer (N1).
    Normalizer,
    /// The skill's fallback (N2).
    Fallback,
    /// The runner's repair (N3).
    Repair,
}

impl StepName {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            StepName::AsIs => "as_is",
            StepName::RemoveBom => "remove_bom",
            StepName::RemoveFences => "remove_fences",
            StepName::RemoveProse => "remove_prose",
            StepName::TrailingCommas => "trailing_commas",
            StepName::SmartQuotes => "smart_quotes",
            StepName::CloseBrackets => "close_brackets",
            StepName::Extract => "extract",
            StepName::Validate => "validate",
            StepName::Normalizer => "normalizer",
            StepName::Fallback => "fallback",
            StepName::Repair => "repair",
        }
    }
}

/// One step and how it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What was done.
    pub step: StepName,
    /// Whether it led on.
    pub ok: bool,
    /// What was seen.
    pub detail: String,
}

impl Step {
    /// A step with its outcome.
    pub fn new(step: StepName, ok: bool, detail: impl Into<String>) -> Self {
        Self { step, ok, detail: detail.into() }
    }
}

/// A text read as JSON, or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// How far it had to be carried; without a value, how far it was tried.
    pub level: Level,
    /// The value, when there is one.
    pub value: Option<Value>,
    /// What was done, in order.
    pub steps: Vec<Step>,
}

/// How a text came out against a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A value that keeps the schema.
    Valid,
    /// No JSON at all.
    Missing,
    /// JSON that breaks the schema.
    Invalid,
}

/// A text read and validated.
#[derive(Debug, Clone, PartialEq)]
pub struct Convergence {
    /// How far the text had to be carried.
    pub level: Level,
    /// The value, valid or not.
    pub value: Option<Value>,
    /// How it came out.
    pub outcome: Outcome,
    /// What was done, in order.
    pub steps: Vec<Step>,
    /// Where the value breaks the schema.
    pub validation_errors: Vec<Violation>,
}

impl Convergence {
    /// Whether the value keeps the schema.
    pub fn valid(&self) -> bool {
        match self.outcome {
            Outcome::Valid => true,
            Outcome::Missing | Outcome::Invalid => false,
        }
    }
}

/// Reads a text as JSON: as it stands, else with its syntax repaired and never a guess at its meaning.
pub fn parse(text: &str) -> Parsed {
    let text = text.trim();
    match serde_json::from_str(text) {
        Ok(value) => Parsed {
            level: Level::None,
            value: Some(value),
            steps: vec![Step::new(StepName::AsIs, true, "the text is JSON as it stands")],
        },
        Err(error) => {
            let mut steps = vec![Step::new(StepName::AsIs, false, error.to_string())];
            let value = extract::value(text, &mut steps);
            Parsed { level: Level::N0, value, steps }
        }
    }
}

/// Checks a value, or a part of one, and gives the step to record.
pub fn validate(value: &Value, schema: &Validator) -> (Step, Vec<Violation>) {
    let violations = schema.errors(value);
    let step = match violations.first() {
        None => Step::new(StepName::Validate, true, "the value keeps the output schema"),
        Some(first) => {
            let detail = format!("{} violations, the first at {:?}: {}", violations.len(), first.path, first.message);
            Step::new(StepName::Validate, false, detail)
        }
    };
    (step, violations)
}

/// Reads a text and checks the value it holds.
pub fn converge(text: &str, schema: &Validator) -> Convergence {
    let Parsed { level, value, mut steps } = parse(text);
    let (outcome, validation_errors) = match &value {
        None => (Outcome::Missing, Vec::new()),
        Some(value) => {
            let (step, violations) = validate(value, schema);
            let outcome = if step.ok { Outcome::Valid } else { Outcome::Invalid };
            steps.push(step);
            (outcome, violations)
        }
    };
    Convergence { level, value, outcome, steps, validation_errors }
}
