//! Text to a validated value: read as JSON, its syntax repaired where needed, checked against the schema.

use serde_json::Value;

use super::extract;
use super::step::{Step, StepName};
use crate::bounded;
use crate::bounded::json::has_at_most;
use crate::domain::validation::NormalizationLevel as Level;
use crate::skill::schema::{TooCostly, Validator, Violation};

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

impl Parsed {
    /// A text that is JSON as it stands.
    pub(super) fn as_it_stands(value: Value) -> Self {
        let step = Step::new(StepName::AsIs, true, "the text is JSON as it stands");
        Self { level: Level::None, value: Some(value), steps: vec![step] }
    }
}

/// Most values of a text that is read as JSON: each takes many times its bytes in memory.
const VALUES_MAX: usize = 1_000_000;

/// The step of a text that is not read because it has too many values.
pub(super) fn too_many_values(text: &str) -> Option<Step> {
    let told = || Step::new(StepName::AsIs, false, format!("the text has more than {VALUES_MAX} values of JSON"));
    (!has_at_most(text.as_bytes(), VALUES_MAX)).then(told)
}

/// Reads a text as JSON: as it stands, else with its syntax repaired and never a guess at its meaning.
///
/// ```
/// use serde_json::json;
/// use skill_runner::convergence::{Level, parse};
///
/// let parsed = parse("The answer is {\"pages\": [1, 2,]}, as asked.");
/// assert_eq!(parsed.value, Some(json!({ "pages": [1, 2] })));
/// assert_eq!(parsed.level, Level::N0);
/// ```
pub fn parse(text: &str) -> Parsed {
    let text = text.trim();
    if let Some(step) = too_many_values(text) {
        return Parsed { level: Level::N0, value: None, steps: vec![step] };
    }
    match bounded::json::from_str(text) {
        Ok(value) => Parsed::as_it_stands(value),
        Err(error) => {
            let mut steps = vec![Step::new(StepName::AsIs, false, error.to_string())];
            let value = extract::value(text, &mut steps);
            Parsed { level: Level::N0, value, steps }
        }
    }
}

/// Checks a value, or a part of one, and gives the step to record.
pub(crate) fn validate(value: &Value, schema: &Validator) -> (Step, Result<Vec<Violation>, TooCostly>) {
    match schema.errors(value) {
        Ok(violations) => (violated(&violations), Ok(violations)),
        Err(costly) => (Step::new(StepName::Validate, false, costly.to_string()), Err(costly)),
    }
}

/// The step of a check that found these.
pub(crate) fn violated(violations: &[Violation]) -> Step {
    match violations.first() {
        None => Step::new(StepName::Validate, true, "the value keeps the output schema"),
        Some(first) => {
            let detail = format!("{} violations, the first at {:?}: {}", violations.len(), first.path, first.message);
            Step::new(StepName::Validate, false, detail)
        }
    }
}
