//! What there is to know about an engine on this machine, in one value.

use std::thread;

use serde::Serialize;

use super::find::Source;
use super::{InstalledEngines, login};
use crate::engine::{ADAPTERS, Adapter, State, script};

/// An engine on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The engine.
    pub engine: String,
    /// `active`, `sunset` or `built_in`.
    pub state: &'static str,
    /// Whether it can be started.
    pub installed: bool,
    /// What starts it.
    pub program: Option<String>,
    /// How that was found.
    pub source: Option<Source>,
    /// What it calls itself.
    pub cli_version_detected: Option<String>,
    /// The version it was measured with, which an upgrade installs.
    pub pinned_version: Option<String>,
    /// Whether it has something to log in with.
    pub auth_ready: bool,
    /// What that is, or what to do.
    pub auth_detail: String,
    /// Why it cannot be started.
    pub problem: Option<String>,
    /// What installs it.
    pub install_command: Option<String>,
}

impl InstalledEngines {
    /// What is known of one engine.
    pub fn status(&self, adapter: &Adapter) -> Status {
        let found = self.find(adapter);
        let settings = self.engine(adapter).cloned().unwrap_or_default();
        let login = login::readiness(adapter.name, &settings, &self.0.env, &self.home(adapter));
        let ok = found.as_ref().ok();
        let missing = found.as_ref().err();
        Status {
            engine: adapter.name.to_owned(),
            state: state_name(adapter.state),
            installed: found.is_ok(),
            program: ok.map(|found| found.program.join(" ")),
            source: ok.map(|found| found.source),
            cli_version_detected: ok.and_then(|found| found.known_version()),
            pinned_version: adapter.install.as_ref().map(|install| install.version.to_owned()),
            auth_ready: login.ready,
            auth_detail: login.detail,
            problem: missing.map(|missing| missing.reason.clone()),
            install_command: missing.map(|missing| missing.install_command.clone()),
        }
    }

    /// What is known of every engine, the built-in one last. The CLIs are asked side by side.
    pub fn statuses(&self) -> Vec<Status> {
        let mut all: Vec<Status> = thread::scope(|scope| {
            let asked = ADAPTERS.map(|adapter| scope.spawn(|| self.status(adapter)));
            asked.into_iter().filter_map(|status| status.join().ok()).collect()
        });
        all.push(built_in());
        all
    }
}

fn built_in() -> Status {
    Status {
        engine: script::ENGINE.to_owned(),
        state: state_name(State::BuiltIn),
        installed: true,
        program: None,
        source: None,
        cli_version_detected: Some(env!("CARGO_PKG_VERSION").to_owned()),
        pinned_version: None,
        auth_ready: true,
        auth_detail: "it needs no log-in".to_owned(),
        problem: None,
        install_command: None,
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Active => "active",
        State::Sunset => "sunset",
        State::BuiltIn => "built_in",
    }
}
