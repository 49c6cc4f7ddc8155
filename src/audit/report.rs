//! What an audit found.

use serde::Serialize;

use crate::domain::ids::RunId;
use crate::domain::statechart::Status;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    /// Which rule is broken.
    pub(crate) rule: &'static str,
    /// In which file of the run, or the export itself.
    pub(crate) file: String,
    /// At which event.
    pub(crate) seq: Option<u64>,
    /// At which byte of the file.
    pub(crate) byte: Option<u64>,
    /// What is wrong.
    pub(crate) message: String,
}

/// What an audit found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Nothing is wrong.
    pub(crate) ok: bool,
    /// The run.
    pub(crate) run_id: Option<RunId>,
    /// Where it is, by its log.
    pub(crate) status: Option<Status>,
    /// Events in its log.
    pub(crate) events: u64,
    /// What was looked at.
    pub(crate) checked: Vec<&'static str>,
    /// What was not, and why.
    pub(crate) not_checked: Vec<String>,
    /// What is wrong.
    pub(crate) violations: Vec<Violation>,
}

impl Report {
    /// Notes something wrong with a file.
    pub(crate) fn violated(&mut self, rule: &'static str, file: impl Into<String>, message: impl Into<String>) {
        let (file, message) = (file.into(), message.into());
        self.violations.push(Violation { rule, file, seq: None, byte: None, message });
    }

    /// Nothing more will be found.
    pub(crate) fn closed(mut self) -> Self {
        self.ok = self.violations.is_empty();
        self
    }
}
