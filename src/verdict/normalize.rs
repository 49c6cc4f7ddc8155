//! The steps behind the first validation, and what each came to.

use serde_json::{Map, Value};

use crate::convergence::StepName;
use crate::domain::codes::WarningCode;
use crate::domain::event::{NormalizationLevel, NormalizationStep, Normalized, ValidationError};
use crate::domain::outcome::{Warning, WarningLevel};
use crate::domain::run_file::RunFile;

/// A step that starts a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NormalizeStep {
    /// N1, by this command.
    Normalizer(String),
    /// N2, by this command.
    Fallback(String),
    /// N3.
    Repair,
}

impl NormalizeStep {
    pub(crate) fn level(&self) -> NormalizationLevel {
        match self {
            NormalizeStep::Normalizer(_) => NormalizationLevel::N1,
            NormalizeStep::Fallback(_) => NormalizationLevel::N2,
            NormalizeStep::Repair => NormalizationLevel::N3,
        }
    }

    /// Where its result file is kept, unless it is the first of its turn.
    pub(crate) fn result_file(&self) -> RunFile {
        match self {
            NormalizeStep::Normalizer(_) => RunFile::NormalizerResult,
            NormalizeStep::Fallback(_) => RunFile::FallbackResult,
            NormalizeStep::Repair => RunFile::RepairResult,
        }
    }

    pub(crate) fn name(&self) -> StepName {
        match self {
            NormalizeStep::Normalizer(_) => StepName::Normalizer,
            NormalizeStep::Fallback(_) => StepName::Fallback,
            NormalizeStep::Repair => StepName::Repair,
        }
    }
}

/// What a step came to.
pub(crate) struct StepResult {
    /// Whether it brought something to validate.
    pub ok: bool,
    pub detail: String,
    /// How that was read and validated.
    pub checked: Vec<NormalizationStep>,
    /// Where it breaks the schema; none when nothing was validated.
    pub errors: Option<Vec<ValidationError>>,
    /// The value, when it is valid.
    pub data: Option<Value>,
}

impl StepResult {
    pub(crate) fn failed(detail: impl Into<String>) -> Self {
        Self { ok: false, detail: detail.into(), checked: Vec::new(), errors: None, data: None }
    }
}

/// Enter a step into the chain's account; the value, when it is valid.
pub(crate) fn record(so_far: &mut Normalized, step: &NormalizeStep, result: StepResult) -> Option<Value> {
    let StepResult { ok, detail, checked, errors, data } = result;
    so_far.level = step.level();
    so_far.valid = data.is_some();
    so_far.steps.push(NormalizationStep { step: step.name().as_str().to_owned(), ok, detail });
    so_far.steps.extend(checked);
    if let Some(errors) = errors {
        so_far.validation_errors = errors;
    }
    data
}

pub(crate) fn warning(step: &NormalizeStep, result: &StepResult) -> Warning {
    let by = match step {
        NormalizeStep::Normalizer(_) => "the skill's normalizer",
        NormalizeStep::Fallback(_) => "the skill's fallback",
        NormalizeStep::Repair => "the engine, asked once more",
    };
    let why = result.checked.iter().rev().find(|step| !step.ok).map_or(&result.detail, |step| &step.detail);
    let (code, message, level) = match (&result.data, step) {
        (None, _) => (
            WarningCode::NormalizationFailed,
            format!("{by} did not make the output valid: {why}"),
            WarningLevel::Warning,
        ),
        (Some(_), NormalizeStep::Normalizer(_) | NormalizeStep::Fallback(_)) => {
            (WarningCode::OutputNormalized, format!("the output was made valid by {by}"), WarningLevel::Info)
        }
        (Some(_), NormalizeStep::Repair) => (
            WarningCode::OutputRepaired,
            format!("the output was made valid by {by}; it may have drifted from what the engine found first"),
            WarningLevel::Warning,
        ),
    };
    Warning {
        code: code.as_str().to_owned(),
        message,
        level,
        normalization_level: Some(step.level()),
        details: Map::from_iter([
            ("step".to_owned(), step.name().as_str().into()),
            ("detail".to_owned(), result.detail.clone().into()),
        ]),
    }
}
