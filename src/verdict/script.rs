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
        Answer::Success { data, remarks } => Verdict { remarks, ..check_script(turn, &parsed, data) },
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
    // A script that prints nothing may answer with its result file.
    if let Some(written) = turn.skill_result.filter(|_| turn.stdout.trim().is_empty()) {
        return check_written(turn, written);
    }
    let message = "the script ended well but wrote no JSON to standard output; it must answer with one JSON object";
    missing_output(("stdout", turn.raw_output), &parsed, message, Completion::Exit)
}

/// Validate the data of a success: what the skill wrote to its result file, else what the answer carries.
fn check_script(turn: &ScriptTurn<'_>, parsed: &Parsed, data: Value) -> Verdict {
    match turn.skill_result {
        Some(written) => check_written(turn, written),
        None => check(("stdout", turn.raw_output), parsed, data, turn.output, Completion::Exit),
    }
}

fn check_written(turn: &ScriptTurn<'_>, written: &str) -> Verdict {
    let written = convergence::parse(written);
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
    let line = last_error_line(turn.stderr_tail).map(|line| format!(": {line}")).unwrap_or_default();
    RunError::new(ErrorCode::EngineFailed, format!("the script {}{said}{line}", turn.exit))
        .with("raw_output_path", turn.raw_output)
        .with("hint", "what the script wrote to standard error is in logs/stderr.txt")
        .with("exit_code", json!(turn.exit.code()))
        .with("stderr", shown)
}

/// Most characters of the line that a message quotes.
const LINE_SHOWN: usize = 300;

/// The line of standard error that says what went wrong: the last one that names an error, else the last one.
fn last_error_line(stderr: &str) -> Option<String> {
    let lines = || stderr.lines().rev().map(str::trim_end).filter(|line| !line.trim().is_empty());
    // Programs indent what belongs to another line, such as the calls of a stack.
    let names_error = |line: &&str| !line.starts_with(char::is_whitespace) && names_error(line);
    let line = lines().find(names_error).or_else(|| lines().find(|line| !script::is_progress(line)))?.trim();
    let cut = line.chars().count() > LINE_SHOWN;
    Some(line.chars().take(LINE_SHOWN).chain(cut.then_some('…')).collect())
}

/// `ValueError: …`, `Error: …`, `fatal: …`, `thread 'main' panicked at …`, `run.sh: line 3: x: not found`.
fn names_error(line: &str) -> bool {
    let Some((before, _)) = line.split_once(": ") else { return false };
    let kind = before.rsplit([' ', '.']).next().unwrap_or_default();
    kind.ends_with("Error") || kind.ends_with("Exception") || kind.eq_ignore_ascii_case("error") || kind == "fatal"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_names_the_error_is_found_among_what_follows_it() {
        for (stderr, line) in [
            (
                "Traceback (most recent call last):\n  File \"a.py\"\nModuleNotFoundError: No module named 'pandas'\n",
                Some("ModuleNotFoundError: No module named 'pandas'"),
            ),
            (
                "x.js:1\n\nError: Cannot find module 'y'\n    at z\n  code: 'MODULE_NOT_FOUND',\n}\n\nNode.js v22.1.0\n",
                Some("Error: Cannot find module 'y'"),
            ),
            ("run.sh: line 3: frob: not found\n\n", Some("run.sh: line 3: frob: not found")),
            ("no such thing\n50% half way\n", Some("no such thing")),
            ("requests.exceptions.ConnectionError: refused", Some("requests.exceptions.ConnectionError: refused")),
            ("10% x\n", None),
            ("", None),
        ] {
            assert_eq!(last_error_line(stderr).as_deref(), line, "{stderr:?}");
        }
        assert_eq!(last_error_line(&"x".repeat(400)).unwrap().chars().count(), LINE_SHOWN + 1);
    }
}
