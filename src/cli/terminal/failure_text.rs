//! Why a run failed, as lines for people.

use serde_json::Value;

use crate::cli::terminal::look::{harmless, harmless_name, one_line};
use crate::domain::codes::ErrorCode;

/// Longest value on a line.
const VALUE_MAX: usize = 200;
/// Most violations and processes that are shown; the JSON document has them all.
const SHOWN_MAX: usize = 20;
/// Most lines of standard error that are shown.
const STDERR_LINES: usize = 15;

/// Details that are shown in another way, or say nothing more than the message does.
const SHOWN_OTHERWISE: [&str; 10] = [
    "hint",
    "stderr",
    "raw_output_path",
    "validation_errors",
    "exit_code",
    "processes",
    "last_output",
    "http_status",
    "install_command",
    "installer_output",
];

/// The lines that explain a failure: the cause, the event that decided it, violations, details, what to do.
pub(crate) fn failure_lines(explanation: &Value) -> Vec<String> {
    let text = |value: &Value| one_line(value.as_str().unwrap_or_default(), 20 * VALUE_MAX);
    let mut lines = vec![format!("error: {}: {}", text(&explanation["code"]), text(&explanation["cause"]))];
    let decided = &explanation["decided_by"];
    let seq = harmless_name(&decided["seq"].to_string());
    lines.push(format!("decided by: event {seq}, {}", text(&decided["type"])));
    lines.extend(violation_lines(&explanation["violations"]));
    lines.extend(detail_lines(&explanation["details"]));
    let canceled = explanation["status"] == "canceled";
    // What was written last may have been written there.
    let told = explanation["stderr_tail"] == explanation["details"]["last_output"];
    lines.extend(block("standard error ends with:", &explanation["stderr_tail"]).filter(|_| !canceled && !told));
    lines.push(format!("next: {}", next(explanation)));
    lines
}

fn violation_lines(violations: &Value) -> Vec<String> {
    let all: Vec<&Value> = violations.as_array().into_iter().flatten().collect();
    let mut lines = Vec::new();
    if !all.is_empty() {
        lines.push("the output breaks its schema:".to_owned());
    }
    for violation in all.iter().take(SHOWN_MAX) {
        let text = |key: &str| one_line(violation[key].as_str().unwrap_or_default(), VALUE_MAX);
        let path = text("path");
        let place = if path.is_empty() { "the whole output" } else { &path };
        lines.push(format!("  {place}: {}", text("message")));
        lines.push(format!("    {}", harmless_name(&place_of(&violation["origin"]))));
    }
    if all.len() > SHOWN_MAX {
        lines.push(format!("  and {} more; --json lists them all", all.len() - SHOWN_MAX));
    }
    lines
}

/// Where a value was written.
fn place_of(origin: &Value) -> String {
    let text = |key: &str| origin[key].as_str().unwrap_or_default();
    let whole = if text("precision") == "field" { "" } else { "somewhere in " };
    let bytes = format!("{whole}bytes {}-{}", origin["byte_from"], origin["byte_to"]);
    match text("kind") {
        "stream" => format!("{bytes} of logs/{}.txt, event {}", text("stream"), origin["seq"]),
        "file" => format!("{bytes} of {}", text("file")),
        _ => "the log does not record where it was written".to_owned(),
    }
}

fn detail_lines(details: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, value) in details.as_object().into_iter().flatten() {
        if !SHOWN_OTHERWISE.contains(&key.as_str()) && !value.is_null() {
            let value = shown(value);
            lines.push(format!("{}: {}", one_line(key, VALUE_MAX), one_line(&value, VALUE_MAX)));
        }
    }
    let processes: Vec<&Value> = details["processes"].as_array().into_iter().flatten().collect();
    if !processes.is_empty() {
        lines.push("processes at that time:".to_owned());
    }
    lines.extend(processes.iter().take(SHOWN_MAX).map(|process| format!("  {}", process_line(process))));
    lines.extend(block("the last output was:", &details["last_output"]));
    lines
}

/// A text as it is, texts with commas between them, anything else as JSON.
fn shown(value: &Value) -> String {
    let texts: Option<Vec<&str>> = value.as_array().and_then(|items| items.iter().map(Value::as_str).collect());
    match (value, texts) {
        (Value::String(text), _) => text.clone(),
        (_, Some(texts)) => texts.join(", "),
        (other, None) => other.to_string(),
    }
}

fn process_line(process: &Value) -> String {
    let text = |key: &str| process[key].as_str().unwrap_or_default();
    one_line(&format!("{} {}, {}", process["pid"], text("command"), text("state")), VALUE_MAX)
}

/// A text of several lines under its title, without what a terminal should not see.
fn block(title: &str, text: &Value) -> Option<String> {
    let text = harmless(text.as_str().unwrap_or_default());
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if all.is_empty() {
        return None;
    }
    let shown = &all[all.len().saturating_sub(STDERR_LINES)..];
    let shown: String = shown.iter().map(|line| format!("\n  {}", cut(line))).collect();
    Some(format!("{title}{shown}"))
}

fn cut(line: &str) -> String {
    let long = line.chars().count() > VALUE_MAX;
    line.chars().take(VALUE_MAX).chain(long.then_some('…')).collect()
}

/// What to do, in the words of the command line.
fn next(explanation: &Value) -> String {
    let code = explanation["code"].as_str().and_then(ErrorCode::from_text);
    let hint = code.map(|code| code.info().hint.cli);
    let own = explanation["details"]["hint"].as_str();
    let run = harmless_name(explanation["run_id"].as_str().unwrap_or_default());
    let install = explanation["details"]["install_command"].as_str();
    match (hint, own) {
        (Some(_), _) if install.is_some() => format!("`{}` installs it", harmless(install.unwrap_or_default())),
        (Some(_), Some(own)) if code == Some(ErrorCode::DependenciesUnavailable) => harmless(own),
        (Some(hint), _) => hint.replace("`skill-runner logs", &format!("`skill-runner logs {run}")),
        (None, Some(own)) => harmless(own),
        (None, None) => format!("this code is the skill's own; `skill-runner logs {run}` shows what it wrote"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_is_told_from_the_cause_to_what_can_be_done() {
        let explanation = json!({
            "run_id": "r1", "status": "failed", "code": "SCHEMA_VALIDATION_FAILED", "cause": "it does not fit",
            "decided_by": {"seq": 7, "type": "output.normalized"},
            "violations": [
                {"path": "/n", "message": "\"x\" is not a number", "value": "x", "origin":
                    {"kind": "stream", "precision": "field", "stream": "stdout", "seq": 5, "byte_from": 3, "byte_to": 6}},
                {"path": "", "message": "no", "origin": {"kind": "unknown"}},
            ],
            "details": {"hint": "x", "limit": 3, "missing": ["a", "b"], "processes": [{"pid": 4, "command": "sleep 9", "state": "S (sleeping)"}], "last_output": "a\n\nb\u{1b}\n"},
            "stderr_tail": "warned\n",
        });
        assert_eq!(
            failure_lines(&explanation),
            [
                "error: SCHEMA_VALIDATION_FAILED: it does not fit",
                "decided by: event 7, output.normalized",
                "the output breaks its schema:",
                "  /n: \"x\" is not a number",
                "    bytes 3-6 of logs/stdout.txt, event 5",
                "  the whole output: no",
                "    the log does not record where it was written",
                "limit: 3",
                "missing: a, b",
                "processes at that time:",
                "  4 sleep 9, S (sleeping)",
                "the last output was:\n  a\n  b\u{fffd}",
                "standard error ends with:\n  warned",
                "next: change what the skill writes at these places, or its output schema; `skill-runner logs r1` shows the whole output",
            ]
        );
    }

    #[test]
    fn what_was_written_last_is_told_once_and_the_command_that_installs_an_engine_is_what_to_do() {
        let explanation = json!({
            "run_id": "r1", "status": "failed", "code": "ENGINE_NOT_INSTALLED", "cause": "no",
            "decided_by": {"seq": 3, "type": "conversation.failed"}, "stderr_tail": "ready\n",
            "details": {"install_command": "skill-runner engines --install codex", "last_output": "ready\n"},
        });
        assert_eq!(
            failure_lines(&explanation),
            [
                "error: ENGINE_NOT_INSTALLED: no",
                "decided by: event 3, conversation.failed",
                "the last output was:\n  ready",
                "next: `skill-runner engines --install codex` installs it",
            ]
        );
    }

    #[test]
    fn the_command_that_shows_the_logs_names_the_run() {
        let explanation = json!({"run_id": "r1", "code": "ENGINE_FAILED", "details": {}});
        let last = failure_lines(&explanation).pop().unwrap();
        assert_eq!(last, "next: `skill-runner logs r1 --stream stderr` shows what the engine said about it");
    }
}
