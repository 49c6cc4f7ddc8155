//! What an engine's end means: its exit, its answer and the schema, weighed into one verdict.

use serde_json::{Value, json};

use super::attempt::Stop;
use crate::convergence::{self, Decision, Parsed, Question, TurnWords, WordsDecision};
use crate::domain::event::{NormalizationLevel, NormalizationStep, Normalized, ValidationError};
use crate::domain::interaction::Interaction;
use crate::domain::outcome::{Completion, RunError, Warning, WarningLevel, code};
use crate::domain::request::ExecutionMode;
use crate::engine::script::{self, Answer};
use crate::engine::{self, Adapter, EngineVerdict, TurnReport};
use crate::skill::schema::Validator;
use crate::supervisor::Exit;

/// The attempts of an interactive run are used up.
const INTERACTIVE_MAX_ATTEMPT_EXCEEDED: &str = "INTERACTIVE_MAX_ATTEMPT_EXCEEDED";
/// Where an engine's output is kept, in the run's folder.
const ENGINE_OUTPUT: &str = "raw/engine_output.txt";
/// Most characters of standard error shown in an error.
const STDERR_SHOWN: usize = 2000;

/// What a script left behind.
pub(super) struct ScriptRemains<'a> {
    pub exit: Exit,
    pub stop: Option<Stop>,
    /// Standard output of this turn.
    pub stdout: &'a str,
    /// The end of its standard error.
    pub stderr_tail: &'a str,
    /// The result file, when the skill wrote one in this turn.
    pub skill_result: Option<&'a str>,
    pub output: &'a Validator,
    /// Where its standard output is kept, in the run's folder.
    pub raw_output: &'static str,
}

/// What an agent CLI left behind.
pub(super) struct CliRemains<'a> {
    pub adapter: &'static Adapter,
    pub report: &'a TurnReport,
    pub exit: Exit,
    pub dismissed: bool,
    pub stop: Option<Stop>,
    /// The result file, when the skill wrote one in this turn.
    pub skill_result: Option<&'a str>,
    pub output: &'a Validator,
    pub mode: ExecutionMode,
    /// Turns begun.
    pub attempt: u32,
    pub max_attempt: Option<u32>,
}

/// What a turn came to when nothing failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// Valid output.
    Done(Completion, Value),
    /// A question to the user.
    Ask(Interaction),
}

/// The verdict on one turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    /// The validated data or a question, or why there is neither.
    pub outcome: Result<Outcome, RunError>,
    /// How the output was found and checked, if it got that far.
    pub normalized: Option<Normalized>,
    /// Worth knowing.
    pub warnings: Vec<Warning>,
    /// The engine's answer as JSON.
    pub answer: Option<Value>,
    /// What valid output would have completed, when that is all that is missing.
    pub awaited: Option<Completion>,
}

/// A turn that lacks nothing but valid output.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unsettled {
    /// Why it fails if nothing helps.
    pub error: RunError,
    /// How the output was found and checked so far.
    pub normalized: Normalized,
    /// Worth knowing.
    pub warnings: Vec<Warning>,
    /// What valid output completes.
    pub completion: Completion,
}

impl Verdict {
    pub fn failed(error: RunError) -> Self {
        Self { outcome: Err(error), normalized: None, warnings: Vec::new(), answer: None, awaited: None }
    }

    /// What the ladder has to work with, or the verdict as it stands.
    pub fn unsettled(self) -> Result<Unsettled, Box<Verdict>> {
        match self {
            Verdict {
                outcome: Err(error), normalized: Some(normalized), awaited: Some(completion), warnings, ..
            } => Ok(Unsettled { error, normalized, warnings, completion }),
            settled => Err(Box::new(settled)),
        }
    }
}

/// Judge a script's turn.
pub(super) fn judge_script(remains: &ScriptRemains<'_>) -> Verdict {
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
        Answer::Success { data } => check_script(remains, &parsed, data),
        Answer::NotAnEnvelope(errors) => {
            let mut steps = steps(&parsed);
            steps.push(NormalizationStep { step: "envelope".into(), ok: false, detail: errors[0].message.clone() });
            invalid(&parsed, ("stdout", remains.raw_output), steps, errors, Completion::Exit)
        }
    };
    verdict.answer = Some(value);
    verdict
}

fn no_answer(remains: &ScriptRemains<'_>, parsed: Parsed) -> Verdict {
    if remains.exit != Exit::Code(0) {
        return Verdict::failed(engine_failed(remains, ""));
    }
    let message = "the script ended well but wrote no JSON to standard output; it must answer with one JSON object";
    missing_output(("stdout", remains.raw_output), &parsed, message, Completion::Exit)
}

/// Judge an agent CLI's turn: first whether the engine did its part, then what it said.
pub(super) fn judge_cli(remains: &CliRemains<'_>) -> Verdict {
    if let Some(stop) = &remains.stop {
        return Verdict::failed(stop.error());
    }
    let (text, structured) = match engine_verdict(remains) {
        EngineVerdict::Failed(error) => return Verdict::failed(error.bounded()),
        EngineVerdict::Succeeded { text, structured } => (text, structured),
    };
    if remains.mode == ExecutionMode::Interactive {
        return judge_interactive(remains, &text, structured.as_ref());
    }
    let (source, parsed) = match (remains.skill_result, structured) {
        (Some(written), _) => ("result_file", convergence::parse(written)),
        (None, Some(value)) => ("structured_output", convergence::parse(&value.to_string())),
        (None, None) => ("assistant_message", convergence::parse(&text)),
    };
    let Some(data) = parsed.value.clone() else {
        let message = "the engine ended well but its last message holds no JSON; the skill must say what to answer";
        return missing_output(placed(source), &parsed, message, Completion::Schema);
    };
    let mut verdict = check(placed(source), &parsed, data.clone(), remains.output, Completion::Schema);
    verdict.answer = Some(data);
    verdict
}

/// Judge a turn that may ask.
fn judge_interactive(remains: &CliRemains<'_>, text: &str, structured: Option<&Value>) -> Verdict {
    let structured = structured.map(Value::to_string);
    let decision = convergence::decide_turn(&TurnWords {
        text,
        structured: structured.as_deref(),
        result_file: remains.skill_result,
        output: remains.output,
        attempt: remains.attempt,
        max_attempt: remains.max_attempt,
    });
    match decision {
        Decision::Completed { value, parsed, source, marked } => {
            let completion = if marked { Completion::DoneMarker } else { Completion::Schema };
            let mut verdict = check(placed(source), &parsed, value.clone(), remains.output, completion);
            if !marked {
                let message = "the output passes its schema, but the engine did not say that it is done";
                verdict.warnings.push(Warning::new("INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER", message));
            }
            verdict.answer = Some(value);
            verdict
        }
        Decision::Invalid { parsed, source, errors, outcome } => match outcome {
            convergence::Outcome::Missing => {
                let message = "the engine says that it is done, but its answer holds no JSON";
                missing_output(placed(source), &parsed, message, Completion::DoneMarker)
            }
            convergence::Outcome::Invalid | convergence::Outcome::Valid => {
                let mut steps = steps(&parsed);
                steps.push(NormalizationStep {
                    step: "validate".into(),
                    ok: false,
                    detail: errors.first().map(|error| error.message.clone()).unwrap_or_default(),
                });
                let mut verdict = invalid(&parsed, placed(source), steps, errors, Completion::DoneMarker);
                verdict.answer = parsed.value;
                verdict
            }
        },
        Decision::Ask(question) => asked(*question),
        Decision::AttemptsUsedUp => attempts_used_up(remains),
        Decision::Silent => {
            let message = "the engine ended its turn without a word: no output and no question";
            missing_output(placed("assistant_message"), &convergence::parse(text), message, Completion::Schema)
        }
    }
}

/// Judge a turn of an engine that a script stands behind: its words, or a question, or why there are none.
pub(super) fn judge_words(remains: &CliRemains<'_>) -> Result<String, Verdict> {
    if let Some(stop) = &remains.stop {
        return Err(Verdict::failed(stop.error()));
    }
    let text = match engine_verdict(remains) {
        EngineVerdict::Failed(error) => return Err(Verdict::failed(error.bounded())),
        EngineVerdict::Succeeded { text, .. } => text,
    };
    match remains.mode {
        ExecutionMode::Auto => Ok(text),
        ExecutionMode::Interactive => match convergence::decide_words(&text, remains.attempt, remains.max_attempt) {
            WordsDecision::Done(words) => Ok(words),
            WordsDecision::Ask(question) => Err(asked(*question)),
            WordsDecision::AttemptsUsedUp => Err(attempts_used_up(remains)),
            WordsDecision::Silent => {
                let message = "the engine ended its turn without a word: neither done nor a question";
                Err(Verdict::failed(with_hints(RunError::new(code::OUTPUT_MISSING, message), ENGINE_OUTPUT)))
            }
        },
    }
}

fn engine_verdict(remains: &CliRemains<'_>) -> EngineVerdict {
    let exit = match remains.exit {
        _ if remains.dismissed => engine::Exit::Dismissed,
        Exit::Code(code) => engine::Exit::Code(code),
        Exit::Signal(signal) => engine::Exit::Signal(signal),
        Exit::Unknown => engine::Exit::Unknown,
    };
    engine::verdict(remains.adapter, remains.report, exit)
}

fn asked(question: Question) -> Verdict {
    Verdict {
        outcome: Ok(Outcome::Ask(question.interaction)),
        normalized: None,
        warnings: question.warning.into_iter().collect(),
        answer: None,
        awaited: None,
    }
}

fn attempts_used_up(remains: &CliRemains<'_>) -> Verdict {
    let message = format!(
        "after {} turns there is still no output; raise max_attempt or make the skill ask less",
        remains.attempt
    );
    let error = RunError::new(INTERACTIVE_MAX_ATTEMPT_EXCEEDED, message);
    Verdict::failed(error.with("max_attempt", remains.max_attempt))
}

/// A source of output, and where its raw form is kept in the run's folder.
type Placed<'a> = (&'a str, &'a str);

fn placed(source: &str) -> Placed<'_> {
    let place = match source {
        "result_file" => "raw/skill_result.json",
        "structured_output" => "raw/engine_output.json",
        _ => ENGINE_OUTPUT,
    };
    (source, place)
}

fn missing_output(source: Placed<'_>, parsed: &Parsed, message: &str, awaited: Completion) -> Verdict {
    let normalized = Normalized {
        level: parsed.level,
        valid: false,
        source: source.0.into(),
        steps: steps(parsed),
        validation_errors: Vec::new(),
    };
    Verdict {
        outcome: Err(with_hints(RunError::new(code::OUTPUT_MISSING, message), source.1)),
        normalized: Some(normalized),
        warnings: Vec::new(),
        answer: None,
        awaited: Some(awaited),
    }
}

/// Validate the data of a success: what the skill wrote to its result file, else what the answer carries.
fn check_script(remains: &ScriptRemains<'_>, parsed: &Parsed, data: Value) -> Verdict {
    let Some(written) = remains.skill_result.map(convergence::parse) else {
        return check(("stdout", remains.raw_output), parsed, data, remains.output, Completion::Exit);
    };
    match written.value.clone() {
        Some(value) => check(placed("result_file"), &written, value, remains.output, Completion::Exit),
        None => invalid(&written, placed("result_file"), steps(&written), vec![not_json()], Completion::Exit),
    }
}

fn check(source: Placed<'_>, parsed: &Parsed, data: Value, output: &Validator, completion: Completion) -> Verdict {
    let mut steps = steps(parsed);
    let (step, errors) = convergence::validate(&data, output);
    steps.push(convert_step(&step));
    if !errors.is_empty() {
        return invalid(parsed, source, steps, errors, completion);
    }
    Verdict {
        outcome: Ok(Outcome::Done(completion, data)),
        normalized: Some(Normalized {
            level: parsed.level,
            valid: true,
            source: source.0.into(),
            steps,
            validation_errors: Vec::new(),
        }),
        warnings: repaired(parsed),
        answer: None,
        awaited: None,
    }
}

fn invalid(
    parsed: &Parsed,
    source: Placed<'_>,
    steps: Vec<NormalizationStep>,
    errors: Vec<ValidationError>,
    awaited: Completion,
) -> Verdict {
    let first = errors.first().map(|error| format!("{} at {:?}", error.message, error.path)).unwrap_or_default();
    let error = RunError::new(code::SCHEMA_VALIDATION_FAILED, format!("the output breaks its schema: {first}"))
        .with("validation_errors", json!(errors));
    Verdict {
        outcome: Err(with_hints(error, source.1)),
        normalized: Some(Normalized {
            level: parsed.level,
            valid: false,
            source: source.0.into(),
            steps,
            validation_errors: errors,
        }),
        warnings: repaired(parsed),
        answer: None,
        awaited: Some(awaited),
    }
}

fn not_json() -> ValidationError {
    ValidationError { path: String::new(), message: "result/result.json is not JSON".into() }
}

fn with_hints(error: RunError, raw_output: &str) -> RunError {
    let hint = format!("compare {raw_output} with the skill's output schema; standard error is in logs/stderr.txt");
    error.with("raw_output_path", raw_output).with("hint", hint)
}

fn engine_failed(remains: &ScriptRemains<'_>, said: &str) -> RunError {
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
    RunError::new(code::ENGINE_FAILED, format!("the script {how}{said}"))
        .with("raw_output_path", remains.raw_output)
        .with("hint", "what the script wrote to standard error is in logs/stderr.txt")
        .with("exit_code", exit_code)
        .with("stderr", shown)
}

fn repaired(parsed: &Parsed) -> Vec<Warning> {
    if parsed.level == NormalizationLevel::None {
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

pub(super) fn steps(parsed: &Parsed) -> Vec<NormalizationStep> {
    parsed.steps.iter().map(convert_step).collect()
}

pub(super) fn convert_step(step: &convergence::Step) -> NormalizationStep {
    NormalizationStep { step: step.step.as_str().to_owned(), ok: step.ok, detail: step.detail.clone() }
}
