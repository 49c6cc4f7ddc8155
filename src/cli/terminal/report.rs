//! What a command that failed says about it.

use std::process::ExitCode;

use serde_json::Value;

use crate::bounded::harmless::harmless;
use crate::cli::failure::Failure;
use crate::cli::terminal::fold::to_stderr;

impl Failure {
    /// Prints on standard error what is wrong; the exit status.
    pub(crate) fn report(self) -> ExitCode {
        let exit = self.exit();
        match self {
            Self::Configuration(problems) => {
                to_stderr("error: the configuration is wrong");
                for problem in problems {
                    to_stderr(&format!("  {}", harmless(&problem.to_string())));
                }
            }
            Self::Refused { code, message, details } => {
                to_stderr(&format!("error: {}", harmless(&format!("{code}: {message}"))));
                for line in detail_lines(&details) {
                    to_stderr(&format!("  {}", harmless(&line)));
                }
            }
            Self::Busy(message) => {
                to_stderr(&format!("error: {message}"));
                to_stderr("  wait until it has ended, stop it, or choose another folder with --data-dir");
            }
            Self::Usage(message)
            | Self::Unreachable(message)
            | Self::NotFound(message)
            | Self::Unusable(message)
            | Self::Broken(message) => {
                to_stderr(&format!("error: {}", harmless(&message)));
            }
            Self::Reported(_) | Self::OutputClosed => {}
        }
        exit.status().into()
    }
}

/// The details of a refusal, one line each.
fn detail_lines(details: &Value) -> Vec<String> {
    let line = |detail: &Value| match (&detail["path"], &detail["message"]) {
        (Value::String(path), Value::String(message)) if path.is_empty() => message.clone(),
        (Value::String(path), Value::String(message)) => format!("{path}: {message}"),
        _ => detail.to_string(),
    };
    match details {
        Value::Null => Vec::new(),
        Value::Array(details) => details.iter().map(line).collect(),
        Value::Object(details) => {
            let told = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // What was probably meant stands in the message.
            let members = details.iter().filter(|(name, _)| *name != "did_you_mean");
            members.map(|(name, value)| format!("{}: {}", name.replace('_', " "), told(value))).collect()
        }
        other => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_details_of_a_refusal_are_one_line_each() {
        let details = json!([{"path": "/n", "message": "must be a number"}, {"path": "", "message": "no"}, {"x": 1}]);
        assert_eq!(detail_lines(&details), ["/n: must be a number", "no", r#"{"x":1}"#]);
        assert_eq!(detail_lines(&Value::Null), Vec::<String>::new());
        assert_eq!(detail_lines(&json!({})), Vec::<String>::new());
        assert_eq!(
            detail_lines(&json!({"limit": 3, "file": "a/b", "did_you_mean": "x", "head_seq": 9})),
            ["limit: 3", "file: a/b", "head seq: 9"]
        );
    }
}
