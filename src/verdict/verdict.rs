//! What a turn came to: a result, a question, a failure, or output that normalization may still make valid.

use serde_json::{Map, Value, json};

use crate::convergence;
use crate::convergence::{Parsed, Source};
use crate::domain::codes::{ErrorCode, WarningCode};
use crate::domain::event::{NormalizationLevel, NormalizationStep, Normalized, ValidationError};
use crate::domain::interaction::Interaction;
use crate::domain::outcome::{Completion, RunError, Warning, WarningLevel};
use crate::domain::run_file::RunFile;
use crate::skill::schema::{TooCostly, Validator};

/// What a turn came to when nothing failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Done(Completion, Value),
    /// A question to the user.
    Ask(Interaction),
}

/// The verdict on one turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// The validated data or a question, or why there is neither.
    pub outcome: Result<Outcome, RunError>,
    /// How the output was found and checked, if it got that far.
    pub normalized: Option<Normalized>,
    pub warnings: Vec<Warning>,
    /// The engine's answer as JSON.
    pub answer: Option<Value>,
    /// What valid output would have completed, when that is all that is missing.
    pub awaited: Option<Completion>,
    /// The message of the engine in which the output was found, from 1.
    pub message: Option<usize>,
    /// Whether it failed for a reason that may pass, before it did anything.
    pub transient: bool,
    /// What a script says of its success besides the data: members of the result.
    pub remarks: Map<String, Value>,
}

/// A turn that lacks nothing but valid output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InvalidOutput {
    /// Why it fails if nothing helps.
    pub error: RunError,
    /// How the output was found and checked so far.
    pub normalized: Normalized,
    pub warnings: Vec<Warning>,
    /// What valid output completes.
    pub completion: Completion,
    pub remarks: Map<String, Value>,
}

impl Verdict {
    pub(crate) fn failed(error: RunError) -> Self {
        Self::of_outcome(Err(error))
    }

    pub(crate) fn of_outcome(outcome: Result<Outcome, RunError>) -> Self {
        Self {
            outcome,
            normalized: None,
            warnings: Vec::new(),
            answer: None,
            awaited: None,
            message: None,
            transient: false,
            remarks: Map::new(),
        }
    }

    /// The same verdict on this answer of an engine.
    #[must_use]
    pub(crate) fn of(mut self, source: Source, answer: Option<Value>) -> Self {
        self.answer = answer;
        self.message = match source {
            Source::Message(number) => Some(number),
            Source::ResultFile | Source::StructuredOutput => None,
        };
        self
    }

    /// What normalization has to work with, or the verdict itself.
    pub(crate) fn invalid_output(self) -> Result<InvalidOutput, Box<Verdict>> {
        match self {
            Verdict {
                outcome: Err(error),
                normalized: Some(normalized),
                awaited: Some(completion),
                warnings,
                remarks,
                ..
            } => Ok(InvalidOutput { error, normalized, warnings, completion, remarks }),
            verdict => Err(Box::new(verdict)),
        }
    }
}

/// A source of output, and where its raw form is kept in the run's folder.
pub(crate) type Placed<'a> = (&'a str, &'a str);

pub(crate) fn placed(source: &str) -> Placed<'_> {
    let place = match source {
        "result_file" => RunFile::SkillResult,
        "structured_output" => RunFile::EngineOutputJson,
        _ => RunFile::EngineOutput,
    };
    (source, place.name())
}

pub(crate) fn missing_output(source: Placed<'_>, parsed: &Parsed, message: &str, awaited: Completion) -> Verdict {
    let normalized = Normalized {
        level: parsed.level,
        valid: false,
        source: source.0.into(),
        steps: steps(parsed),
        validation_errors: Vec::new(),
    };
    let error = RunError::new(ErrorCode::OutputMissing, message).with("validation_errors", json!([]));
    Verdict { normalized: Some(normalized), awaited: Some(awaited), ..Verdict::failed(with_hints(error, source.1)) }
}

pub(crate) fn check(
    source: Placed<'_>,
    parsed: &Parsed,
    data: Value,
    output: &Validator,
    completion: Completion,
) -> Verdict {
    let mut steps = steps(parsed);
    let (step, errors) = convergence::validate(&data, output);
    steps.push(convert_step(&step));
    match errors {
        Ok(errors) if errors.is_empty() => {}
        Ok(errors) => return invalid(parsed, source, steps, errors, completion),
        Err(costly) => return too_costly(parsed, source, steps, costly),
    }
    Verdict {
        normalized: Some(Normalized {
            level: parsed.level,
            valid: true,
            source: source.0.into(),
            steps,
            validation_errors: Vec::new(),
        }),
        warnings: repaired(parsed),
        ..Verdict::of_outcome(Ok(Outcome::Done(completion, data)))
    }
}

pub(crate) fn invalid(
    parsed: &Parsed,
    source: Placed<'_>,
    steps: Vec<NormalizationStep>,
    errors: Vec<ValidationError>,
    awaited: Completion,
) -> Verdict {
    let told = |error: &ValidationError| match error.path.as_str() {
        "" => error.message.clone(),
        path => format!("{} at {path:?}", error.message),
    };
    let first = errors.first().map(told).unwrap_or_default();
    let error = RunError::new(ErrorCode::SchemaValidationFailed, format!("the output breaks its schema: {first}"))
        .with("validation_errors", json!(errors));
    Verdict {
        normalized: Some(Normalized {
            level: parsed.level,
            valid: false,
            source: source.0.into(),
            steps,
            validation_errors: errors,
        }),
        warnings: repaired(parsed),
        awaited: Some(awaited),
        ..Verdict::failed(with_hints(error, source.1))
    }
}

/// An output that cannot be checked in time is no result, and no further step would check it sooner.
pub(crate) fn too_costly(
    parsed: &Parsed,
    source: Placed<'_>,
    steps: Vec<NormalizationStep>,
    costly: TooCostly,
) -> Verdict {
    let error = RunError::new(ErrorCode::SchemaTooCostly, format!("the output is not checked: {costly}"));
    Verdict {
        normalized: Some(Normalized {
            level: parsed.level,
            valid: false,
            source: source.0.into(),
            steps,
            validation_errors: vec![costly.into()],
        }),
        warnings: repaired(parsed),
        ..Verdict::failed(with_hints(error, source.1))
    }
}

pub(crate) fn with_hints(error: RunError, raw_output: &str) -> RunError {
    let hint = format!("compare {raw_output} with the skill's output schema; standard error is in logs/stderr.txt");
    error.with("raw_output_path", raw_output).with("hint", hint)
}

fn repaired(parsed: &Parsed) -> Vec<Warning> {
    if parsed.level == NormalizationLevel::None {
        return Vec::new();
    }
    let done: Vec<String> = parsed.steps.iter().filter(|step| step.ok).map(|step| convert_step(step).step).collect();
    vec![Warning {
        code: WarningCode::OutputNormalized.as_str().to_owned(),
        message: format!("the output was not plain JSON; its syntax was repaired ({})", done.join(", ")),
        level: WarningLevel::Info,
        normalization_level: Some(NormalizationLevel::N0),
        details: serde_json::Map::from_iter([("steps".to_owned(), json!(done))]),
    }]
}

pub(crate) fn steps(parsed: &Parsed) -> Vec<NormalizationStep> {
    parsed.steps.iter().map(convert_step).collect()
}

pub(crate) fn convert_step(step: &convergence::Step) -> NormalizationStep {
    NormalizationStep { step: step.step.as_str().to_owned(), ok: step.ok, detail: step.detail.clone() }
}
