//! The verdict on an agent CLI: first whether the engine did its part, then what it said.

use serde_json::Value;

use crate::convergence;
use crate::convergence::{Question, TurnVerdict, TurnWords, WordsVerdict};
use crate::domain::codes::{ErrorCode, WarningCode};
use crate::domain::event::NormalizationStep;
use crate::domain::outcome::{Completion, RunError, Warning};
use crate::domain::request::ExecutionMode;
use crate::domain::run_file::RunFile;
use crate::engine;
use crate::engine::{Adapter, EngineAnswer, ProcessExit, TurnReport};
use crate::skill::schema::Validator;
use crate::verdict::stop::Stop;
use crate::verdict::verdict::{
    Outcome, Verdict, check, invalid, missing_output, placed, steps, too_costly, with_hints,
};

/// What an agent CLI left to be judged.
pub(crate) struct CliTurn<'a> {
    pub adapter: &'static Adapter,
    pub report: &'a TurnReport,
    pub exit: ProcessExit,
    pub stop: Option<Stop>,
    /// The result file, when the skill wrote one in this turn.
    pub skill_result: Option<&'a str>,
    pub output: &'a Validator,
    pub mode: ExecutionMode,
    pub attempt: u32,
    pub max_attempt: Option<u32>,
}

/// Judge an agent CLI's turn: first whether the engine did its part, then what it said.
pub(crate) fn judge_cli(turn: &CliTurn<'_>) -> Verdict {
    if let Some(stop) = &turn.stop {
        return Verdict::failed(stop.error());
    }
    let (text, structured) = match engine_answer(turn) {
        Err(error) => return Verdict::failed(error.bounded()),
        Ok(EngineAnswer { text, structured }) => (text, structured),
    };
    if turn.mode == ExecutionMode::Interactive {
        return judge_interactive(turn, &text, structured.as_ref());
    }
    let (source, parsed) = match (turn.skill_result, structured) {
        (Some(written), _) => ("result_file", convergence::parse(written)),
        (None, Some(value)) => ("structured_output", convergence::parse(&value.to_string())),
        (None, None) => ("assistant_message", convergence::parse(&text)),
    };
    let Some(data) = parsed.value.clone() else {
        let message = "the engine ended well but its last message holds no JSON; the skill must say what to answer";
        return missing_output(placed(source), &parsed, message, Completion::Schema);
    };
    let mut verdict = check(placed(source), &parsed, data.clone(), turn.output, Completion::Schema);
    verdict.answer = Some(data);
    verdict
}

/// Judge a turn that may ask.
fn judge_interactive(turn: &CliTurn<'_>, text: &str, structured: Option<&Value>) -> Verdict {
    let structured = structured.map(Value::to_string);
    let decision = convergence::judge_turn(&TurnWords {
        text,
        structured: structured.as_deref(),
        result_file: turn.skill_result,
        output: turn.output,
        attempt: turn.attempt,
        max_attempt: turn.max_attempt,
    });
    match decision {
        TurnVerdict::Completed { value, parsed, source, marked } => {
            let completion = if marked { Completion::DoneMarker } else { Completion::Schema };
            let mut verdict = check(placed(source), &parsed, value.clone(), turn.output, completion);
            if !marked {
                let message = "the output passes its schema, but the engine did not say that it is done";
                verdict.warnings.push(Warning::new(WarningCode::InteractiveCompletedWithoutDoneMarker, message));
            }
            verdict.answer = Some(value);
            verdict
        }
        TurnVerdict::Invalid { parsed, source, errors, outcome } => match outcome {
            convergence::Validity::Missing => {
                let message = "the engine says that it is done, but its answer holds no JSON";
                missing_output(placed(source), &parsed, message, Completion::DoneMarker)
            }
            convergence::Validity::Invalid | convergence::Validity::Valid => {
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
        TurnVerdict::TooCostly { parsed, source, costly } => {
            let mut steps = steps(&parsed);
            steps.push(NormalizationStep { step: "validate".into(), ok: false, detail: costly.to_string() });
            let mut verdict = too_costly(&parsed, placed(source), steps, costly);
            verdict.answer = parsed.value;
            verdict
        }
        TurnVerdict::Ask(question) => asked(*question),
        TurnVerdict::AttemptsUsedUp => attempts_used_up(turn),
        TurnVerdict::Silent => {
            let message = "the engine ended its turn without a word: no output and no question";
            missing_output(placed("assistant_message"), &convergence::parse(text), message, Completion::Schema)
        }
    }
}

/// Judge a turn of a hybrid skill's engine: its words, or a question, or why there are none.
pub(crate) fn judge_words(turn: &CliTurn<'_>) -> Result<String, Box<Verdict>> {
    if let Some(stop) = &turn.stop {
        return Err(Box::new(Verdict::failed(stop.error())));
    }
    let text = match engine_answer(turn) {
        Err(error) => return Err(Box::new(Verdict::failed(error.bounded()))),
        Ok(answer) => answer.text,
    };
    match turn.mode {
        ExecutionMode::Auto => Ok(text),
        ExecutionMode::Interactive => match convergence::judge_words(&text, turn.attempt, turn.max_attempt) {
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
    engine::answer(turn.adapter, turn.report, turn.exit)
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

fn attempts_used_up(turn: &CliTurn<'_>) -> Verdict {
    let message =
        format!("after {} turns there is still no output; raise max_attempt or make the skill ask less", turn.attempt);
    let error = RunError::new(ErrorCode::InteractiveMaxAttemptExceeded, message);
    Verdict::failed(error.with("max_attempt", turn.max_attempt))
}
