//! What a skill says of its runs: how long they may take, whom they reach, where they write, what they use.

use serde::{Deserialize, Serialize};

use crate::domain::resources::AskedLimits;

/// Limits on a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Automation {
    /// Seconds an attempt may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_sec: Option<u64>,
    /// What the skill wants of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<Network>,
    /// The hosts of `network: allowlist`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) allowlist: Vec<String>,
    /// What the skill wants of the file system, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fs_scope: Option<String>,
    /// What its processes may use of the machine.
    #[serde(default, skip_serializing_if = "AskedLimits::is_empty")]
    pub(crate) limits: AskedLimits,
}

impl Automation {
    /// What a run may do with files.
    pub(crate) fn file_scope(&self) -> FileScope {
        match self.fs_scope.as_deref() {
            None => FileScope::Unsaid,
            Some("run" | "workspace" | "workspace_only") => FileScope::Run,
            Some("read_only") => FileScope::ReadOnly,
            Some(_) => FileScope::Unknown,
        }
    }

    /// What it asks for.
    pub(crate) fn asks_for(&self) -> Vec<&'static str> {
        self.not_kept_by(Keeper::Nobody)
    }

    /// What it asks for and this does not enforce.
    pub(crate) fn not_kept_by(&self, keeper: Keeper) -> Vec<&'static str> {
        let network = match (self.network, keeper) {
            (Some(Network::Off), Keeper::Nobody) => Some("automation.network: off"),
            (Some(Network::Allowlist), Keeper::Nobody | Keeper::Engine) => Some("automation.network: allowlist"),
            (Some(Network::Off | Network::Allowlist | Network::On) | None, _) => None,
        };
        let files = match (self.file_scope(), keeper) {
            (FileScope::Run, Keeper::Nobody) => Some("automation.fs_scope: run"),
            (FileScope::ReadOnly, Keeper::Nobody | Keeper::Engine) => Some("automation.fs_scope: read_only"),
            (FileScope::Unknown, _) => Some("automation.fs_scope: a value that is not known"),
            (FileScope::Unsaid | FileScope::Run | FileScope::ReadOnly, _) => None,
        };
        network.into_iter().chain(files).collect()
    }
}

/// What confines a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeper {
    Nobody,
    /// The engine's own sandbox.
    Engine,
    /// The runner's.
    Sandbox,
}

/// What a skill wants of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileScope {
    /// What the operator allows: also to write to the folders of `sandbox_write`.
    Unsaid,
    /// To write in the run's own folders alone.
    Run,
    /// To write results, artifacts and temporary files alone.
    ReadOnly,
    /// Something that nobody knows how to enforce; it gets the same as [`FileScope::Run`].
    Unknown,
}

/// The values of `automation.fs_scope` and what each stands for, as messages name them.
pub(crate) const FILE_SCOPES: &str = "\"run\" or \"read_only\"";

/// What a skill wants of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Network {
    Off,
    /// The hosts it lists.
    Allowlist,
    On,
}
