//! What confines the processes of a turn, as its first event tells it.

use serde::{Deserialize, Serialize};

/// What was in force. Logs of older versions name it in one word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Isolation {
    Told(InForce),
    Named(String),
}

/// The tier, and what it consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InForce {
    pub(crate) tier: Tier,
    /// What keeps the processes from the machine and from each other, part by part.
    pub(crate) parts: Vec<Part>,
    /// What they can change or read.
    pub(crate) files: Files,
    /// Whom they reach.
    pub(crate) network: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The runner's sandbox.
    Sandbox,
    /// Nothing but that no process outlives the run.
    ProcessTree,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    ProcessTree,
    OwnTmp,
    ReadOnlyRoot,
    HiddenHomes,
    MinimalDev,
    PidNamespace,
    IpcNamespace,
    UtsNamespace,
    UserNamespace,
    NetworkNamespace,
    EgressProxy,
    NoNewPrivileges,
    Seccomp,
    /// A control group of the kernel limits memory and processes, or counts processor time.
    ControlGroup,
    /// The engine confines its commands itself.
    EngineSandbox,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// Everything that the service's user can.
    Machine,
    /// Programs and libraries to read, the run's own folders to write.
    Run,
    /// The same, but of the run's folder only results and artifacts to write.
    ReadOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Everybody whom the machine reaches.
    Machine,
    /// Nobody.
    None,
    /// The engine's model alone.
    Model,
    /// The names that the skill lists, and the engine's model.
    Allowlist,
    /// Everybody but the machine itself and private networks.
    Open,
}

impl From<&str> for Isolation {
    fn from(name: &str) -> Self {
        Isolation::Named(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_of_an_old_log_and_an_object_read_back_as_they_were() {
        let old = json!("process-tree+engine-sandbox+own-tmp");
        let new = json!({
            "tier": "sandbox", "parts": ["pid-namespace", "seccomp"], "files": "run", "network": "allowlist",
        });
        for written in [old, new] {
            let read: Isolation = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), written.to_string());
        }
    }
}
