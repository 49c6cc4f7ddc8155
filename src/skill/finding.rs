//! The findings of a lint, collected so that one lint shows all of them.

use std::fmt;

use serde::Serialize;

use crate::domain::codes::FindingCode;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The package cannot be used.
    Error,
    /// The package works, yet its author should know.
    Warning,
}

/// One thing that is wrong with a package, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How grave it is.
    pub severity: Severity,
    /// A stable name for the rule, in upper case.
    pub code: FindingCode,
    /// The file of the package; empty when it is about the package as a whole.
    pub file: String,
    /// The place in that file, as a JSON pointer; empty means all of it.
    pub(crate) pointer: String,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Finding {
    /// An error about the package or one of its files as a whole.
    pub(crate) fn error(code: FindingCode, file: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            file: file.into(),
            pointer: String::new(),
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// The same, as a warning.
    #[must_use]
    pub(crate) fn into_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// The same, at a place in the file.
    #[must_use]
    pub(crate) fn at(self, pointer: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let place = match (self.file.as_str(), self.pointer.as_str()) {
            ("", _) => String::new(),
            (file, "") => format!("{file}: "),
            (file, pointer) => format!("{file}#{pointer}: "),
        };
        write!(f, "{severity} {}: {place}{}; {}", self.code, self.message, self.hint)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Adds a general finding unless a more specific one is about the same place.
    pub(crate) fn push_unless_said(&mut self, finding: Finding) {
        // One rule can have two findings at one place, such as two missing keys of an object.
        let said = |other: &Finding| {
            other.code != finding.code && other.file == finding.file && other.pointer == finding.pointer
        };
        if !self.findings.iter().any(said) {
            self.findings.push(finding);
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// A key as one step of a JSON pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_one_line_with_its_place() {
        let finding =
            Finding::error(FindingCode::OldKey, "assets/runner.json", "the key is no longer read", "rename it");
        let at_key = finding.clone().into_warning().at("/key");
        assert_eq!(finding.to_string(), "error OLD_KEY: assets/runner.json: the key is no longer read; rename it");
        assert_eq!(
            at_key.to_string(),
            "warning OLD_KEY: assets/runner.json#/key: the key is no longer read; rename it"
        );
    }
}
