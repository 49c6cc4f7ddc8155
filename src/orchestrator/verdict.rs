//! What an engine's end means: its exit, its answer and the schema, weighed into one verdict.

use serde_json::{Value, json};

use super::attempt::Stop;
use crate::convergence::{self, Parsed};
use crate::domain::event::{NormalizationLevel, NormalizationStep, Normalized, ValidationError};
use crate::domain::outcome::{Completion, RunError, Warning, WarningLevel, code};
use crate::engine::script::{self, Answer};
use crate::skill::schema::Validator;
use crate::supervisor::Exit;

/// Most characters of standard error shown in an error.
const STDERR_SHOWN: usize = 2000;

/// What an engine left behind.
pub(super) struct Remains<'a> {
    pub exit: Exit,
    pub stop: Option<Stop>,
    /// Standard output of this turn.
    pub stdout: &'a str,
    /// The end of its standard error.
    pub stderr_tail: &'a str,
    /// `result/result.json`, when the skill wrote one in this turn.
    pub skill_result: Option<&'a str>,
    pub output: &'a Validator,
}

/// The verdict on one turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    /// The validated data, or why there is none.
    pub outcome: Result<(Completion, Value), RunError>,
    /// How the output was found and checked, if it got that far.
    pub normalized: Option<Normalized>,
    /// Worth knowing.
    pub warnings: Vec<Warning>,
    /// The engine's answer as JSON.
    pub answer: Option<Value>,
}

impl Verdict {
    fn failed(error: RunError) -> Self {
        Self { outcome: Err(error), normalized: None, warnings: Vec::new(), answer: None }
    }
}

/// Judge a script's turn.
pub(super) fn judge(remains: &Remains<'_>) -> Verdict {
    if let Some(stop) = &remains.stop {
        return Verdict::failed(stop.error());
    }
    let parsed = convergence::parse(remains.stdout);
    let Some(value) = parsed.value.clone() else {
        return no_answer(remains, parsed);
    };
    let answer = script::read_answer(&value);
    let mut verdict = match answer {
        // A failure keeps its own code, whatever the exit status says.
        Answer::Failure(error) => {
            Verdict::failed(RunError { code: error.code, message: error.message, details: error.details }.bounded())
        }
        Answer::Success { .. } | Answer::NotAnEnvelope(_) if remains.exit != Exit::Code(0) => {
            let said = if matches!(answer, Answer::Success { .. }) { " although its answer says success" } else { "" };
            Verdict::failed(engine_failed(remains, said))
        }
        Answer::Success { data } => check(remains, &parsed, data),
        Answer::NotAnEnvelope(errors) => {
            let mut steps = steps(&parsed);
            steps.push(NormalizationStep { step: "envelope".into(), ok: false, detail: errors[0].message.clone() });
            invalid(&parsed, "stdout", steps, errors)
        }
    };
    verdict.answer = Some(value);
    verdict
}

fn no_answer(remains: &Remains<'_>, parsed: Parsed) -> Verdict {
    if remains.exit != Exit::Code(0) {
        return Verdict::failed(engine_failed(remains, ""));
    }
    let message = "the script ended well but wrote no JSON to standard output; it must answer with one JSON object";
    let normalized = Normalized {
        level: level(&parsed),
        valid: false,
        source: "stdout".into(),
        steps: steps(&parsed),
        validation_errors: Vec::new(),
    };
    Verdict {
        outcome: Err(with_hints(RunError::new(code::OUTPUT_MISSING, message))),
        normalized: Some(normalized),
        warnings: Vec::new(),
        answer: None,
    }
}

/// Validate the data of a success: what the skill wrote to its result file, else what the answer carries.
fn check(remains: &Remains<'_>, parsed: &Parsed, data: Value) -> Verdict {
    let file = remains.skill_result.map(convergence::parse);
    let (source, parsed, data) = match &file {
        Some(written) => match &written.value {
            Some(value) => ("result_file", written, value.clone()),
            None => return invalid(written, "result_file", steps(written), vec![not_json()]),
        },
        None => ("stdout", parsed, data),
    };
    let mut steps = steps(parsed);
    let (step, violations) = convergence::validate(&data, remains.output);
    steps.push(convert_step(&step));
    let errors: Vec<ValidationError> = violations;
    if !errors.is_empty() {
        return invalid(parsed, source, steps, errors);
    }
    Verdict {
        outcome: Ok((Completion::Exit, data)),
        normalized: Some(Normalized {
            level: level(parsed),
            valid: true,
            source: source.into(),
            steps,
            validation_errors: Vec::new(),
        }),
        warnings: repaired(parsed),
        answer: None,
    }
}

fn invalid(parsed: &Parsed, source: &str, steps: Vec<NormalizationStep>, errors: Vec<ValidationError>) -> Verdict {
    let first = errors.first().map(|error| format!("{} at {:?}", error.message, error.path)).unwrap_or_default();
    let error = RunError::new(code::SCHEMA_VALIDATION_FAILED, format!("the output breaks its schema: {first}"))
        .with("validation_errors", json!(errors));
    Verdict {
        outcome: Err(with_hints(error)),
        normalized: Some(Normalized {
            level: level(parsed),
            valid: false,
            source: source.into(),
            steps,
            validation_errors: errors,
        }),
        warnings: repaired(parsed),
        answer: None,
    }
}

fn not_json() -> ValidationError {
    ValidationError { path: String::new(), message: "result/result.json is not JSON".into() }
}

fn with_hints(error: RunError) -> RunError {
    error.with("raw_output_path", "raw/engine_output.txt").with(
        "hint",
        "compare raw/engine_output.txt with the skill's output schema; standard error is in logs/stderr.txt",
    )
}

fn engine_failed(remains: &Remains<'_>, said: &str) -> RunError {
    let how = match remains.exit {
        Exit::Code(code) => format!("exited with status {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
        Exit::Unknown => "ended in a way that cannot be told".to_owned(),
    };
    let shown: String = {
        let skip = remains.stderr_tail.chars().count().saturating_sub(STDERR_SHOWN);
        remains.stderr_tail.chars().skip(skip).collect()
    };
    let exit_code = match remains.exit {
        Exit::Code(code) => json!(code),
        Exit::Signal(_) | Exit::Unknown => Value::Null,
    };
    with_hints(RunError::new(code::ENGINE_FAILED, format!("the script {how}{said}")))
        .with("exit_code", exit_code)
        .with("stderr", shown)
}

fn repaired(parsed: &Parsed) -> Vec<Warning> {
    if level(parsed) == NormalizationLevel::None {
        return Vec::new();
    }
    let done: Vec<String> = parsed.steps.iter().filter(|step| step.ok).map(|step| convert_step(step).step).collect();
    vec![Warning {
        code: "OUTPUT_NORMALIZED".into(),
        message: format!("the output was not plain JSON; its syntax was repaired ({})", done.join(", ")),
        level: WarningLevel::Info,
        normalization_level: Some(NormalizationLevel::N0),
        details: serde_json::Map::from_iter([("steps".to_owned(), json!(done))]),
    }]
}

fn level(parsed: &Parsed) -> NormalizationLevel {
    parsed.level
}

fn steps(parsed: &Parsed) -> Vec<NormalizationStep> {
    parsed.steps.iter().map(convert_step).collect()
}

fn convert_step(step: &convergence::Step) -> NormalizationStep {
    NormalizationStep { step: step.step.as_str().to_owned(), ok: step.ok, detail: step.detail.clone() }
}
