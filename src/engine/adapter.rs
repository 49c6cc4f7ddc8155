//! An engine as a value: what it is called, where it comes from, how it is launched and read.

use super::config;
use super::launch::PoliteSignal;
use super::parser::{Dialect, TurnParser};
use super::report::TurnReport;
use super::turn::{LaunchPlan, Turn, TurnRefused};
use crate::domain::outcome::{Usage, Warning};

/// Whether an engine still has its service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In use.
    Active,
    /// Its service is closed; it runs where a program is configured.
    Sunset,
    /// Part of the runner.
    BuiltIn,
}

/// Where a managed engine comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Install {
    /// The npm package.
    pub package: &'static str,
    /// The version this adapter was measured with.
    pub version: &'static str,
    /// Words that start it, before its arguments; `{prefix}` stands for the folder that holds `node_modules`.
    pub program: &'static [&'static str],
}

impl Install {
    /// The words that start the engine installed below `prefix`.
    pub fn program_in(&self, prefix: &str) -> Vec<String> {
        self.program.iter().map(|word| word.replace("{prefix}", prefix)).collect()
    }
}

/// What names a session of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleKind {
    /// A UUID.
    Uuid {
        /// As it is written in events.
        kind: &'static str,
    },
    /// A prefix, then letters, digits, `-` and `_`.
    Prefixed {
        /// As it is written in events.
        kind: &'static str,
        /// What it begins with.
        prefix: &'static str,
    },
}

impl HandleKind {
    /// As it is written in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uuid { kind } | Self::Prefixed { kind, .. } => kind,
        }
    }

    /// Whether a text can be a handle. Anything else must not reach the engine, which might take it for a flag or,
    /// worse, begin a new session without a word.
    pub fn accepts(self, handle: &str) -> bool {
        match self {
            Self::Uuid { .. } => handle.len() == 36 && uuid::Uuid::try_parse(handle).is_ok(),
            Self::Prefixed { prefix, .. } => {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                handle.len() <= 200
                    && handle.strip_prefix(prefix).is_some_and(|id| !id.is_empty() && id.chars().all(plain))
            }
        }
    }
}

/// One engine.
#[derive(Debug)]
pub struct Adapter {
    /// As users write it.
    pub name: &'static str,
    /// Whether it still has its service.
    pub state: State,
    /// Where it comes from, when it can be installed.
    pub install: Option<Install>,
    /// Version of the dialect, for `turn.started`.
    pub parser_version: &'static str,
    /// How to ask it to stop.
    pub polite: PoliteSignal,
    /// The folder of the run it reads skills from.
    pub skills_folder: &'static str,
    /// What names its sessions.
    pub handle: HandleKind,
    /// Its configuration.
    pub config: config::Kind,
    pub(super) launch: fn(&Adapter, &Turn<'_>) -> Result<LaunchPlan, TurnRefused>,
    pub(super) dialect: fn(Usage) -> Box<dyn Dialect>,
    /// What it says when it does not know a session.
    pub(super) lost_session_words: &'static [&'static str],
    /// The status of the model's service that an exit code gives away.
    pub(super) exit_status: fn(i32) -> Option<u16>,
}

impl Adapter {
    /// What to start for a turn, and which files it needs before.
    pub fn launch(&self, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
        turn.check(self)?;
        (self.launch)(self, turn)
    }

    /// A parser for one turn. `usage_before` is what the run has used in its earlier turns: some engines
    /// report the sum over the whole session, and the parser reports the difference.
    pub fn parser(&self, resumed_from: Option<&str>, usage_before: Usage) -> TurnParser {
        let report = TurnReport::new(self.handle.name(), resumed_from);
        // A new session begins its count at nothing, whatever the run has used in another.
        let usage_before = if resumed_from.is_some() { usage_before } else { Usage::default() };
        TurnParser::new((self.dialect)(usage_before), self.lost_session_words, report)
    }

    /// What a user of this engine has to be told at each run.
    pub fn warning(&self) -> Option<Warning> {
        match self.state {
            State::Active | State::BuiltIn => None,
            State::Sunset => {
                let message = format!("the service behind {} is closed; move to another engine", self.name);
                Some(Warning::new("ENGINE_SUNSET", message))
            }
        }
    }
}

/// For engines whose exit code says nothing about the model's service.
pub(super) fn no_status(_exit_code: i32) -> Option<u16> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_handle_of_its_kind_is_accepted() {
        let uuid = HandleKind::Uuid { kind: "thread_id" };
        assert!(uuid.accepts("01a1e212-7b08-7880-8338-1569b3c6ebe6"));
        for bad in
            ["", "nonsense", "--last", "01a1e2127b0878808338156 9b3c6ebe6", "{01a1e212-7b08-7880-8338-1569b3c6ebe6}"]
        {
            assert!(!uuid.accepts(bad), "{bad}");
        }
        let prefixed = HandleKind::Prefixed { kind: "session_id", prefix: "ses_" };
        assert!(prefixed.accepts("ses_e1de75a6effep7iqUy2Mjd4Wi7"));
        for bad in ["", "ses_", "ses_a b", "x", "-s", "ses_/../x"] {
            assert!(!prefixed.accepts(bad), "{bad}");
        }
    }
}
