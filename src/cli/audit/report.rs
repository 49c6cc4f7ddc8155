//! What an audit found.

use serde::Serialize;

use crate::cli::terminal::{Ink, Look, harmless};
use crate::domain::ids::RunId;
use crate::domain::statechart::Status;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Violation {
    /// Which rule is broken.
    pub(super) rule: &'static str,
    /// In which file of the run, or the export itself.
    pub(super) file: String,
    /// At which event.
    pub(super) seq: Option<u64>,
    /// At which byte of the file.
    pub(super) byte: Option<u64>,
    /// What is wrong.
    pub(super) message: String,
}

/// What an audit found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// Nothing is wrong.
    pub(super) ok: bool,
    /// The run.
    pub(super) run_id: Option<RunId>,
    /// Where it is, by its log.
    pub(super) status: Option<Status>,
    /// Events in its log.
    pub(super) events: u64,
    /// What was looked at.
    pub(super) checked: Vec<&'static str>,
    /// What was not, and why.
    pub(super) not_checked: Vec<String>,
    /// What is wrong.
    pub(super) violations: Vec<Violation>,
}

impl Report {
    /// Notes something wrong with a file.
    pub(super) fn violated(&mut self, rule: &'static str, file: impl Into<String>, message: impl Into<String>) {
        let (file, message) = (file.into(), message.into());
        self.violations.push(Violation { rule, file, seq: None, byte: None, message });
    }

    /// Nothing more will be found.
    pub(super) fn closed(mut self) -> Self {
        self.ok = self.violations.is_empty();
        self
    }

    /// The report in words.
    pub(super) fn told(&self, look: Look) -> String {
        let run = self.run_id.map_or_else(|| "run unknown".to_owned(), |run| format!("run {run}"));
        let status = self.status.map_or("of unknown state", Status::as_str);
        let mut lines = vec![format!("{run}: {} events, {status}", self.events)];
        lines.push(format!("checked: {}", self.checked.join(", ")));
        lines.extend(self.not_checked.iter().map(|what| format!("not checked: {what}")));
        for Violation { rule, file, seq, byte, message } in &self.violations {
            let event = seq.map_or_else(String::new, |seq| format!(" event {seq}"));
            let byte = byte.map_or_else(String::new, |byte| format!(" byte {byte}"));
            let rule = look.paint(Ink::Bad, rule);
            lines.push(format!("{rule} {}{event}{byte}: {}", harmless(file), harmless(message)));
        }
        lines.push(match self.violations.len() {
            0 => look.paint(Ink::Good, "ok"),
            1 => look.paint(Ink::Bad, "1 violation"),
            many => look.paint(Ink::Bad, &format!("{many} violations")),
        });
        lines.join("\n")
    }
}
