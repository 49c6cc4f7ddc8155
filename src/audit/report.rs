//! What an audit found.

use serde::Serialize;

use crate::domain::ids::RunId;
use crate::domain::statechart::Status;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    /// A file of the run, or the export itself.
    pub(crate) file: String,
    pub(crate) seq: Option<u64>,
    pub(crate) byte: Option<u64>,
    pub(crate) message: String,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) ok: bool,
    pub(crate) run_id: Option<RunId>,
    /// The status by its log.
    pub(crate) status: Option<Status>,
    pub(crate) events: u64,
    pub(crate) checked: Vec<&'static str>,
    /// What was not checked, and why.
    pub(crate) not_checked: Vec<String>,
    pub(crate) violations: Vec<Violation>,
}

impl Report {
    pub(crate) fn violated(&mut self, rule: &'static str, file: impl Into<String>, message: impl Into<String>) {
        let (file, message) = (file.into(), message.into());
        self.violations.push(Violation { rule, file, seq: None, byte: None, message });
    }

    /// Sets `ok` once all checks are done.
    pub(crate) fn closed(mut self) -> Self {
        self.ok = self.violations.is_empty();
        self
    }
}
