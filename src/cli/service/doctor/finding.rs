//! What a check of `doctor` found, and what to do about it.

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Grade {
    /// As it should be.
    Ok,
    /// Something will not work that may not be needed.
    Warning,
    /// Runs will fail or the service will not start.
    Broken,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was checked.
    pub(crate) check: String,
    pub(crate) grade: Grade,
    /// What was found.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &str, message: impl Into<String>) -> Self {
        Self { check: check.to_owned(), grade: Grade::Ok, message: message.into(), fix: None }
    }

    pub(crate) fn warning(check: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check: check.to_owned(), grade: Grade::Warning, message: message.into(), fix: Some(fix.into()) }
    }

    pub(crate) fn broken(check: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check: check.to_owned(), grade: Grade::Broken, message: message.into(), fix: Some(fix.into()) }
    }
}
