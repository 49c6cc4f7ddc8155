//! The verdict on an agent CLI: first whether the engine did its part, then what it said.

use serde_json::json;

use crate::convergence;
use crate::convergence::{
    Attempts, Choice, Offer, Parsed, Question, Source, Step, StepName, TurnVerdict, TurnWords, WordsVerdict,
};
use crate::domain::codes::{ErrorCode, WarningCode};
use crate::domain::event::{NormalizationStep, ValidationError};
use crate::domain::outcome::{Completion, RunError, Warning};
use crate::domain::request::ExecutionMode;
use crate::domain::run_file::RunFile;
use crate::engine;
use crate::engine::{Adapter, EngineAnswer, ProcessExit, TurnReport, WayOut};
use crate::skill::schema::{TooCostly, Validator};
use crate::verdict::stop::Stop;
use crate::verdict::verdict::{
    Outcome, Verdict, check, convert_step, invalid, missing_output, placed, steps, too_costly, with_hints,
};

/// What an agent CLI left to be judged.
pub(crate) struct CliTurn<'a> {
    pub adapter: &'static Adapter,
    pub report: &'a TurnReport,
    pub exit: ProcessExit,
    pub stop: Option<Stop>,
    pub way_out: &'a WayOut,
    /// The result file, when the skill wrote one in this turn.
    pub skill_result: Option<&'a str>,
    pub output: &'a Validator,
    /// Whether a message that holds no JSON is the result.
    pub takes_text: bool,
    pub mode: ExecutionMode,
    pub attempt: u32,
    pub max_attempt: Option<u32>,
}

impl CliTurn<'_> {
    fn attempts(&self) -> Attempts {
        Attempts { attempt: self.attempt, max_attempt: self.max_attempt }
    }
}

/// Judge an agent CLI's turn: first whether the engine did its part, then what it said.
pub(crate) fn judge_cli(turn: &CliTurn<'_>) -> Verdict {
    if let Some(stop) = &turn.stop {
        return Verdict::failed(stop.error());
    }
    let structured = match engine_answer(turn) {
        Err(error) => return engine_failed(turn, error),
        Ok(answer) => answer.structured.map(|value| value.to_string()),
    };
    let messages = turn.report.messages();
    let words = TurnWords { messages: &messages, structured: structured.as_deref(), result_file: turn.skill_result };
    match turn.mode {
        ExecutionMode::Auto => judge_auto(turn, &words),
        ExecutionMode::Interactive => judge_interactive(turn, &words),
    }
}

/// Judge a turn that cannot ask.
fn judge_auto(turn: &CliTurn<'_>, words: &TurnWords<'_>) -> Verdict {
    let made = convergence::offers(words);
    match convergence::choose(&made.offers, turn.output) {
        Choice::Valid(offer, warning) => valid(turn, words, offer, warning, Completion::Schema),
        Choice::Invalid(offer, errors) => broken(words, offer, errors, Completion::Schema),
        Choice::TooCostly(offer, costly) => unchecked(words, offer, costly),
        Choice::Nothing if turn.takes_text && !words.messages.is_empty() => {
            let last = words.messages.iter().rev().find(|message| !message.trim().is_empty());
            message_as_result(turn, last.map(String::as_str).unwrap_or_default(), Completion::Schema)
        }
        Choice::Nothing => {
            let message = match made.offers.iter().any(Offer::is_question) {
                true => "the engine asked a question, but nobody can answer in execution_mode auto",
                false => "the engine ended well but none of its messages holds JSON; the skill must say what to answer",
            };
            missing(words, message, Completion::Schema)
        }
    }
}

/// Judge a turn that may ask.
fn judge_interactive(turn: &CliTurn<'_>, words: &TurnWords<'_>) -> Verdict {
    match convergence::judge_turn(words, turn.output, turn.attempts()) {
        TurnVerdict::Completed { offer, warning, marked } => {
            let completion = if marked { Completion::DoneMarker } else { Completion::Schema };
            let mut verdict = valid(turn, words, offer, warning, completion);
            if !marked {
                let message = "the output passes its schema, but the engine did not say that it is done";
                verdict.warnings.push(Warning::new(WarningCode::InteractiveCompletedWithoutDoneMarker, message));
            }
            verdict
        }
        TurnVerdict::Invalid { offer, errors } => broken(words, offer, errors, Completion::DoneMarker),
        TurnVerdict::Missing if turn.takes_text => match convergence::judge_words(words.messages, turn.attempts()) {
            WordsVerdict::Done(text) => message_as_result(turn, &text, Completion::DoneMarker),
            WordsVerdict::Ask(question) => asked(*question),
            WordsVerdict::AttemptsUsedUp => attempts_used_up(turn),
            WordsVerdict::Silent => missing(words, "the engine ended its turn without a word", Completion::DoneMarker),
        },
        TurnVerdict::Missing => {
            missing(words, "the engine says that it is done, but its answer holds no JSON", Completion::DoneMarker)
        }
        TurnVerdict::TooCostly { offer, costly } => unchecked(words, offer, costly),
        TurnVerdict::Ask(question) => asked(*question),
        TurnVerdict::AttemptsUsedUp => attempts_used_up(turn),
        TurnVerdict::Silent => {
            let message = "the engine ended its turn without a word: no output and no question";
            missing(words, message, Completion::Schema)
        }
    }
}

/// The value that was chosen, with the way to it.
fn taken(words: &TurnWords<'_>, offer: Offer) -> (Source, Parsed) {
    let Offer { source, mut parsed, .. } = offer;
    if let Source::Message(number) = source
        && number < words.messages.len()
    {
        let detail = format!("taken from message {number} of {}", words.messages.len());
        parsed.steps.push(Step::new(StepName::EarlierMessage, true, detail));
    }
    (source, parsed)
}

fn valid(
    turn: &CliTurn<'_>,
    words: &TurnWords<'_>,
    offer: Offer,
    warning: Option<Warning>,
    completion: Completion,
) -> Verdict {
    let (source, parsed) = taken(words, offer);
    let value = parsed.value.clone().unwrap_or_default();
    let mut verdict = check(placed(source.name()), &parsed, value.clone(), turn.output, completion);
    verdict.warnings.extend(warning);
    verdict.of(source, Some(value))
}

/// A message that holds no JSON, as the result of a skill that takes it so.
fn message_as_result(turn: &CliTurn<'_>, text: &str, completion: Completion) -> Verdict {
    let text = text.trim();
    if text.is_empty() {
        let source = placed(Source::Message(0).name());
        return missing_output(source, &convergence::parse(text), "the engine ended without a word", completion);
    }
    let value = json!({"message": text});
    let step = Step::new(StepName::MessageAsResult, true, "the message holds no JSON and is the result itself");
    let parsed = Parsed { level: convergence::Level::None, value: Some(value.clone()), steps: vec![step] };
    let source = Source::Message(0);
    check(placed(source.name()), &parsed, value.clone(), turn.output, completion).of(source, Some(value))
}

fn broken(words: &TurnWords<'_>, offer: Offer, errors: Vec<ValidationError>, awaited: Completion) -> Verdict {
    let (source, parsed) = taken(words, offer);
    let mut steps = steps(&parsed);
    steps.push(convert_step(&convergence::violated(&errors)));
    invalid(&parsed, placed(source.name()), steps, errors, awaited).of(source, parsed.value)
}

fn unchecked(words: &TurnWords<'_>, offer: Offer, costly: TooCostly) -> Verdict {
    let (source, parsed) = taken(words, offer);
    let mut steps = steps(&parsed);
    steps.push(NormalizationStep { step: "validate".into(), ok: false, detail: costly.to_string() });
    too_costly(&parsed, placed(source.name()), steps, costly).of(source, parsed.value)
}

fn missing(words: &TurnWords<'_>, message: &str, awaited: Completion) -> Verdict {
    let last = words.messages.last().map(String::as_str).unwrap_or_default();
    missing_output(placed(Source::Message(0).name()), &convergence::parse(last), message, awaited)
}

/// Judge a turn of a hybrid skill's engine: its words, or a question, or why there are none.
pub(crate) fn judge_words(turn: &CliTurn<'_>) -> Result<String, Box<Verdict>> {
    if let Some(stop) = &turn.stop {
        return Err(Box::new(Verdict::failed(stop.error())));
    }
    let text = match engine_answer(turn) {
        Err(error) => return Err(Box::new(engine_failed(turn, error))),
        Ok(answer) => answer.text,
    };
    match turn.mode {
        ExecutionMode::Auto => Ok(text),
        ExecutionMode::Interactive => match convergence::judge_words(&turn.report.messages(), turn.attempts()) {
            WordsVerdict::Done(words) => Ok(words),
            WordsVerdict::Ask(question) => Err(Box::new(asked(*question))),
            WordsVerdict::AttemptsUsedUp => Err(Box::new(attempts_used_up(turn))),
            WordsVerdict::Silent => {
                let message = "the engine ended its turn without a word: neither done nor a question";
                Err(Box::new(Verdict::failed(with_hints(
                    RunError::new(ErrorCode::OutputMissing, message),
                    RunFile::EngineOutput.name(),
                ))))
            }
        },
    }
}

fn engine_answer(turn: &CliTurn<'_>) -> Result<EngineAnswer, RunError> {
    engine::answer(turn.adapter, turn.report, turn.exit, turn.way_out)
}

/// A failure of the model's service, or of the way to it, may pass: what an engine has not begun can be begun again.
fn engine_failed(turn: &CliTurn<'_>, error: RunError) -> Verdict {
    let of_service = error.code == ErrorCode::EngineRateLimited || engine::is_of_connection(&error);
    Verdict { transient: of_service && !turn.report.used_tools, ..Verdict::failed(error.bounded()) }
}

fn asked(question: Question) -> Verdict {
    Verdict {
        warnings: question.warning.into_iter().collect(),
        ..Verdict::of_outcome(Ok(Outcome::Ask(question.interaction)))
    }
}

fn attempts_used_up(turn: &CliTurn<'_>) -> Verdict {
    let message =
        format!("after {} turns there is still no output; raise max_attempt or make the skill ask less", turn.attempt);
    let error = RunError::new(ErrorCode::InteractiveMaxAttemptExceeded, message);
    Verdict::failed(error.with("max_attempt", turn.max_attempt))
}
