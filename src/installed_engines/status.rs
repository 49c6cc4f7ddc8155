//! The status of each engine on this machine.

use std::{io, thread};

use serde::Serialize;

use super::installed::InstalledEngines;
use super::login;
use super::program::Source;
use crate::domain::engine::Engine;
use crate::engine::{self, Adapter};

/// An engine on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    pub(crate) engine: Engine,
    /// `active`, `sunset` or `built_in`.
    pub(crate) state: &'static str,
    /// Whether it can be started.
    pub installed: bool,
    /// The command that starts it.
    pub(crate) program: Option<String>,
    /// How it was found.
    pub(crate) source: Option<Source>,
    /// The version it prints.
    pub cli_version_detected: Option<String>,
    /// The version it was measured with, which an upgrade installs.
    pub(crate) pinned_version: Option<String>,
    /// Whether it has a key or a login.
    pub(crate) auth_ready: bool,
    /// Which one, or what to do.
    pub(crate) auth_detail: String,
    /// Why it cannot be started.
    pub(crate) problem: Option<String>,
    /// What to do about that.
    pub(crate) advice: Option<String>,
    /// The command that installs it, if that helps.
    pub(crate) install_command: Option<String>,
}

impl InstalledEngines {
    /// The status of one agent CLI.
    pub fn status(&self, adapter: &Adapter) -> Status {
        let found = self.find(adapter);
        let settings = self.settings(adapter).cloned().unwrap_or_default();
        let login = login::readiness(adapter, &settings, &self.0.env, &self.home(adapter));
        let ok = found.as_ref().ok();
        let missing = found.as_ref().err();
        Status {
            engine: adapter.engine,
            state: adapter.state.as_str(),
            installed: found.is_ok(),
            program: ok.map(|found| found.program.join(" ")),
            source: ok.map(|found| found.source),
            cli_version_detected: ok.and_then(|found| found.known_version()),
            pinned_version: adapter.install.as_ref().map(|install| install.version.to_owned()),
            auth_ready: login.ready,
            auth_detail: login.detail,
            problem: missing.map(|missing| missing.reason.clone()),
            advice: missing.map(|missing| missing.advice.clone()),
            install_command: missing.and_then(|missing| missing.install_command.clone()),
        }
    }

    /// The status of every engine, the script engine last. The CLIs are asked concurrently.
    pub fn statuses(&self) -> Vec<Status> {
        let mut all: Vec<Status> = thread::scope(|scope| {
            let ask = |adapter: &'static Adapter| {
                (adapter, thread::Builder::new().spawn_scoped(scope, move || self.status(adapter)))
            };
            let asked: Vec<_> = engine::adapters().map(ask).collect();
            let answer =
                |(adapter, asked): (&'static Adapter, io::Result<thread::ScopedJoinHandle<'_, Status>>)| match asked {
                    Ok(status) => status.join().ok(),
                    // The machine has no thread left for it.
                    Err(_) => Some(self.status(adapter)),
                };
            asked.into_iter().filter_map(answer).collect()
        });
        all.push(Status::of_scripts());
        all
    }
}

impl Status {
    /// The script engine is part of the program.
    pub(crate) fn of_scripts() -> Self {
        Self {
            engine: Engine::Script,
            state: "built_in",
            installed: true,
            program: None,
            source: None,
            cli_version_detected: Some(env!("CARGO_PKG_VERSION").to_owned()),
            pinned_version: None,
            auth_ready: true,
            auth_detail: "it needs no login".to_owned(),
            problem: None,
            advice: None,
            install_command: None,
        }
    }
}
