//! What an audit found.

use serde::Serialize;

use crate::domain::ids::RunId;
use crate::domain::statechart::Status;
use crate::export::EVENTS;
use crate::fcmp::PublicKey;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    /// A file of the run, or the export itself.
    pub(crate) file: String,
    pub(crate) seq: Option<u64>,
    pub(crate) byte: Option<u64>,
    pub(crate) message: String,
}

/// Who vouches for a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trust {
    /// The key that the audit was given signed the run.
    Trusted,
    /// A key that nobody vouched for signed the run.
    UnknownKey,
    /// Nobody: whoever can write the files could have made them so.
    #[default]
    SelfConsistent,
}

/// A service whose key signed a run, where several share the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SignerNode {
    pub(crate) node_id: String,
    pub(crate) name: String,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) ok: bool,
    pub(crate) run_id: Option<RunId>,
    /// The status by its log.
    pub(crate) status: Option<Status>,
    pub(crate) events: u64,
    /// Who vouches for it.
    pub(crate) trust: Trust,
    /// The key that signed it.
    pub(crate) signed_by: Option<PublicKey>,
    /// The service that the key is of, if several share the store and one of them has or had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signed_on: Option<SignerNode>,
    pub(crate) checked: Vec<&'static str>,
    /// What was not checked, and why.
    pub(crate) not_checked: Vec<String>,
    pub(crate) violations: Vec<Violation>,
}

/// Most violations that are told, but for those of an export and its log, which have limits of their own.
const VIOLATIONS_MAX: usize = 500;
/// Most characters of the name of a file and of a message: they may repeat what somebody made up.
const SHOWN_MAX: usize = 1000;

fn cut(text: String) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

impl Report {
    pub(crate) fn violated(&mut self, rule: &'static str, file: impl Into<String>, message: impl Into<String>) {
        if self.violations.len() >= VIOLATIONS_MAX {
            return;
        }
        let (file, message) = (cut(file.into()), cut(message.into()));
        self.violations.push(Violation { rule, file, seq: None, byte: None, message });
    }

    /// Compares the signer with the only key that is to be trusted, if one is given.
    pub(crate) fn judge_signer(&mut self, key: Option<PublicKey>) {
        let Some(key) = key else { return };
        self.trust = if self.signed_by.is_some() { Trust::UnknownKey } else { Trust::SelfConsistent };
        match self.signed_by {
            Some(signer) if signer == key => self.trust = Trust::Trusted,
            Some(signer) => self.violated("SIGNATURE", EVENTS, format!("the run was signed by {signer}, not by {key}")),
            None if self.violations.iter().any(|found| found.rule == "SIGNATURE") => {}
            None => self.violated("SIGNATURE", EVENTS, format!("the run is not signed, and should be by {key}")),
        }
        self.ok = self.violations.is_empty();
    }

    /// Says so where the signer is the key of the data folder that the run is in; another signer is no violation there.
    pub(crate) fn know_signer(&mut self, own: Option<PublicKey>) {
        if self.signed_by.is_some() && self.signed_by == own {
            self.trust = Trust::Trusted;
        }
    }

    /// Says so where the signer is a key of a service that shares the store.
    pub(crate) fn know_signer_of(&mut self, key: PublicKey, node: SignerNode) {
        if self.signed_by == Some(key) {
            self.trust = Trust::Trusted;
            self.signed_on = Some(node);
        }
    }

    /// Sets `ok` once all checks are done.
    pub(crate) fn closed(mut self) -> Self {
        self.ok = self.violations.is_empty();
        self
    }
}
