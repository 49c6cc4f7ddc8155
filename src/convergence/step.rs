//! The steps of reading and validating output, by name.

use serde::{Deserialize, Serialize};

/// The steps of normalization, by name.
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
    /// It was not in the last message.
    EarlierMessage,
    /// The message itself was taken, since it holds no value.
    MessageAsResult,
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
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            StepName::AsIs => "as_is",
            StepName::RemoveBom => "remove_bom",
            StepName::RemoveFences => "remove_fences",
            StepName::RemoveProse => "remove_prose",
            StepName::TrailingCommas => "trailing_commas",
            StepName::SmartQuotes => "smart_quotes",
            StepName::CloseBrackets => "close_brackets",
            StepName::EarlierMessage => "earlier_message",
            StepName::MessageAsResult => "message_as_result",
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
    pub(crate) step: StepName,
    /// Whether it led on.
    pub(crate) ok: bool,
    pub(crate) detail: String,
}

impl Step {
    /// A step with its outcome.
    pub(crate) fn new(step: StepName, ok: bool, detail: impl Into<String>) -> Self {
        Self { step, ok, detail: detail.into() }
    }
}
