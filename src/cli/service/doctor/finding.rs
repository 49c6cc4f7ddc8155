//! What a check of `doctor` found, and what to do about it.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Grade {
    Ok,
    /// Something that may not be needed will not work.
    Warning,
    /// Runs will fail or the service will not start.
    Broken,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: String,
    pub(crate) grade: Grade,
    pub(crate) message: String,
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &str, message: impl Into<String>) -> Self {
        Self { check: check.to_owned(), grade: Grade::Ok, message: message.into(), fix: None }
    }

    /// All is well, and could be better.
    pub(crate) fn hint(check: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { grade: Grade::Ok, ..Self::warning(check, message, fix) }
    }

    pub(crate) fn warning(check: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check: check.to_owned(), grade: Grade::Warning, message: message.into(), fix: Some(fix.into()) }
    }

    pub(crate) fn broken(check: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check: check.to_owned(), grade: Grade::Broken, message: message.into(), fix: Some(fix.into()) }
    }
}
