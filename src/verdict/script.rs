//! The verdict on a script: its exit, its answer and the schema, weighed.

use serde_json::{Value, json};

use crate::convergence;
use crate::convergence::Parsed;
use crate::domain::codes::ErrorCode;
use crate::domain::event::{NormalizationStep, ValidationError};
use crate::domain::outcome::{Completion, RunError};
use crate::domain::run_file::RunFile;
use crate::engine::ProcessExit;
use crate::engine::script;
use crate::engine::script::Answer;
use crate::skill::schema::Validator;
use crate::verdict::stop::Stop;
use crate::verdict::verdict::{Verdict, check, invalid, missing_output, placed, steps};

/// Most characters of standard error shown in an error.
const STDERR_SHOWN: usize = 2000;

/// What a script left to be judged.
pub(crate) struct ScriptTurn<'a> {
    pub exit: ProcessExit,
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

/// Judge a script's turn.
pub(crate) fn judge_script(turn: &ScriptTurn<'_>) -> Verdict {
    if let Some(stop) = &turn.stop {
        return Verdict::failed(stop.error());
    }
    let parsed = convergence::parse(turn.stdout);
    let Some(value) = parsed.value.clone() else {
        return no_answer(turn, parsed);
    };
    let answer = script::read_answer(&value);
    let mut verdict = match answer {
        // A failure keeps its own code, whatever the exit status says.
        Answer::Failure(error) => Verdict::failed(RunError::of_script(error.code, error.message, error.details)),
        Answer::Success { .. } | Answer::NotAnEnvelope(_) if turn.exit != ProcessExit::Code(0) => {
            let said = if matches!(answer, Answer::Success { .. }) { " although its answer says success" } else { "" };
            Verdict::failed(engine_failed(turn, said))
        }
        Answer::Success { data } => check_script(turn, &parsed, data),
        Answer::NotAnEnvelope(errors) => {
            let mut steps = steps(&parsed);
            steps.push(NormalizationStep { step: "envelope".into(), ok: false, detail: errors[0].message.clone() });
            invalid(&parsed, ("stdout", turn.raw_output), steps, errors, Completion::Exit)
        }
    };
    verdict.answer = Some(value);
    verdict
}

fn no_answer(turn: &ScriptTurn<'_>, parsed: Parsed) -> Verdict {
    if turn.exit != ProcessExit::Code(0) {
        return Verdict::failed(engine_failed(turn, ""));
    }
    let message = "the script ended well but wrote no JSON to standard output; it must answer with one JSON object";
    missing_output(("stdout", turn.raw_output), &parsed, message, Completion::Exit)
}

/// Validate the data of a success: what the skill wrote to its result file, else what the answer carries.
fn check_script(turn: &ScriptTurn<'_>, parsed: &Parsed, data: Value) -> Verdict {
    let Some(written) = turn.skill_result.map(convergence::parse) else {
        return check(("stdout", turn.raw_output), parsed, data, turn.output, Completion::Exit);
    };
    match written.value.clone() {
        Some(value) => check(placed("result_file"), &written, value, turn.output, Completion::Exit),
        None => invalid(&written, placed("result_file"), steps(&written), vec![not_json()], Completion::Exit),
    }
}

fn not_json() -> ValidationError {
    ValidationError { path: String::new(), message: format!("{} is not JSON", RunFile::Result.name()) }
}

fn engine_failed(turn: &ScriptTurn<'_>, said: &str) -> RunError {
    let shown: String = {
        let skip = turn.stderr_tail.chars().count().saturating_sub(STDERR_SHOWN);
        turn.stderr_tail.chars().skip(skip).collect()
    };
    RunError::new(ErrorCode::EngineFailed, format!("the script {}{said}", turn.exit))
        .with("raw_output_path", turn.raw_output)
        .with("hint", "what the script wrote to standard error is in logs/stderr.txt")
        .with("exit_code", json!(turn.exit.code()))
        .with("stderr", shown)
}
