//! How output was found and checked: levels, steps, and the places where it breaks its schema.

use serde::{Deserialize, Serialize};

/// How much the output had to be changed to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NormalizationLevel {
    /// It parsed as it stood.
    #[serde(rename = "none")]
    None,
    N0,
    N1,
    N2,
    N3,
}

impl NormalizationLevel {
    /// As it is written.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::N0 => "N0",
            Self::N1 => "N1",
            Self::N2 => "N2",
            Self::N3 => "N3",
        }
    }
}

/// One step of the normalization chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NormalizationStep {
    pub(crate) step: String,
    /// Whether it led to valid output.
    pub(crate) ok: bool,
    /// What it did or why it did not help.
    pub(crate) detail: String,
}

/// One place where a value breaks its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationError {
    /// JSON pointer into the value.
    pub(crate) path: String,
    /// What is wrong there.
    pub(crate) message: String,
}

/// Data of `output.normalized`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Normalized {
    /// How far the chain had to go.
    pub(crate) level: NormalizationLevel,
    /// Whether the output passes its schema.
    pub(crate) valid: bool,
    /// Where the output was found.
    pub(crate) source: String,
    /// The steps, in order.
    pub(crate) steps: Vec<NormalizationStep>,
    /// What is wrong with it.
    pub(crate) validation_errors: Vec<ValidationError>,
}
