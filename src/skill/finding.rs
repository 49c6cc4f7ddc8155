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

/// No list of findings is longer.
const FINDINGS_MAX: usize = 200;
/// Longest place and message of a finding, in characters: names of a package may have any length.
const TEXT_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    /// How many found no room.
    left_out: usize,
}

impl Report {
    /// Adds a finding, if there is room for it. An error always has: it takes the place of a warning.
    pub(crate) fn push(&mut self, mut finding: Finding) {
        for text in [&mut finding.file, &mut finding.pointer, &mut finding.message, &mut finding.hint] {
            if let Some((end, _)) = text.char_indices().nth(TEXT_MAX) {
                text.truncate(end);
                text.push('…');
            }
        }
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
            return;
        }
        self.left_out += 1;
        let is_warning = |kept: &&mut Finding| kept.severity == Severity::Warning;
        if finding.severity == Severity::Error
            && let Some(kept) = self.findings.iter_mut().rev().find(is_warning)
        {
            *kept = finding;
        }
    }

    /// All findings; the last one says how many are left out.
    pub(crate) fn into_findings(mut self) -> Vec<Finding> {
        if let (Some(last), 1..) = (self.findings.last_mut(), self.left_out) {
            last.hint = format!("{}; {} more findings are left out", last.hint, self.left_out);
        }
        self.findings
    }

    /// Adds a general finding unless a more specific one is about the same place.
    pub(crate) fn push_unless_said(&mut self, finding: Finding) {
        // One rule can have two findings at one place, such as two missing keys of an object.
        let said = |other: &Finding| {
            other.code != finding.code && other.file == finding.file && other.pointer == finding.pointer
        };
        if !self.findings.iter().any(said) {
            self.push(finding);
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
    fn findings_are_limited_in_number_and_length_and_no_error_is_lost() {
        let finding = |message: String| Finding::error(FindingCode::OldKey, "assets/runner.json", message, "rename it");
        let mut report = Report::default();
        for number in 0..100_000 {
            report.push_unless_said(finding(number.to_string()).into_warning().at(format!("/{number}")));
        }
        assert!(!report.has_errors());
        report.push(finding("x".repeat(100_000)));
        assert!(report.has_errors());
        let findings = report.into_findings();
        let last = findings.last().unwrap();
        assert_eq!((findings.len(), findings[198].message.as_str()), (FINDINGS_MAX, "198"));
        assert_eq!((last.severity, last.message.chars().count()), (Severity::Error, TEXT_MAX + 1));
        assert_eq!(last.hint, "rename it; 99801 more findings are left out");
    }

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
