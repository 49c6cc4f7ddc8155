//! The plan of a sandbox, and its form for the shim.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use skill_runner_shim::wire::{self, NulByte, Words};

use super::filter;
use crate::supervisor::egress::Egress;
use crate::supervisor::words::words;

/// What the processes of one run are confined by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether a user namespace is needed, because the service may not make the others itself.
    pub user_namespace: bool,
    /// Folders in whose place the run sees an empty one.
    pub hidden: Vec<PathBuf>,
    /// What it sees nevertheless, or in another place.
    pub shown: Vec<Shown>,
    pub network: Network,
}

/// A file or folder that a run sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub source: PathBuf,
    pub target: PathBuf,
    pub access: Access,
}

/// What a run may do with something that it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Write,
    Read,
    /// To read, if it is there.
    ReadIfThere,
}

/// The network of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// The machine's.
    Machine,
    /// Its own, with nothing but a loopback.
    None,
    /// Its own, with a proxy of the service that knows whom it may reach.
    Through(Egress),
}

impl Shown {
    /// Shown where it is.
    pub fn in_place(path: impl Into<PathBuf>, access: Access) -> Shown {
        let source = path.into();
        Shown { target: source.clone(), source, access }
    }
}

/// Folders of the machine that no run sees: homes, sockets of services, what others put in places for everybody.
pub(crate) fn hidden_of_machine() -> Vec<PathBuf> {
    ["/root", "/home", "/run", "/tmp", "/var/tmp", "/etc/ssh", "/etc/ssl/private"].map(PathBuf::from).to_vec()
}

const CLONE_NEWCGROUP: u64 = 0x0200_0000;
const CLONE_NEWUTS: u64 = 0x0400_0000;
const CLONE_NEWIPC: u64 = 0x0800_0000;
const CLONE_NEWUSER: u64 = 0x1000_0000;
const CLONE_NEWPID: u64 = 0x2000_0000;
const CLONE_NEWNET: u64 = 0x4000_0000;

/// A plan as bytes, which a message for the shim borrows.
pub(crate) struct Encoded {
    namespaces: u64,
    hidden: Vec<u8>,
    shown: Vec<u8>,
    ports: Vec<u8>,
}

impl Sandbox {
    pub(crate) fn encode(&self) -> Result<Encoded, NulByte> {
        let mut namespaces = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
        if self.user_namespace {
            namespaces |= CLONE_NEWUSER;
        }
        if self.network != Network::Machine {
            namespaces |= CLONE_NEWNET;
        }
        let ports = match &self.network {
            Network::Machine | Network::None => Vec::new(),
            Network::Through(egress) => egress.ports(),
        };
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let mut shown = Vec::new();
        for one in outermost_first(&self.shown) {
            let access: &[u8] = match one.access {
                Access::Write => b"w",
                Access::Read => b"r",
                Access::ReadIfThere => b"o",
            };
            shown.extend([access.to_vec(), bytes(&one.source), bytes(&one.target)]);
        }
        // A folder inside a hidden one is hidden already, and one in whose place something is shown need not be.
        let outer = |folder: &&PathBuf| {
            !self.hidden.iter().any(|other| *folder != other && folder.starts_with(other))
                && !self.shown.iter().any(|one| one.target == **folder)
        };
        Ok(Encoded {
            namespaces,
            hidden: words(self.hidden.iter().filter(outer).map(|folder| bytes(folder)))?,
            shown: words(shown)?,
            ports: words(ports.iter().map(|port| port.to_string()))?,
        })
    }
}

/// What holds another comes before it, or it would cover it.
fn outermost_first(shown: &[Shown]) -> Vec<&Shown> {
    let mut sorted: Vec<&Shown> = shown.iter().collect();
    sorted.sort_by_key(|one| one.target.components().count());
    sorted
}

impl Encoded {
    pub(crate) fn as_wire(&self) -> wire::Sandbox<'_> {
        let ids = [u64::from(rustix::process::geteuid().as_raw()), u64::from(rustix::process::getegid().as_raw())];
        wire::Sandbox {
            namespaces: self.namespaces,
            ids,
            hidden: Words::new(&self.hidden),
            shown: Words::new(&self.shown),
            ports: Words::new(&self.ports),
            filters: filter::encoded(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_another_comes_first_and_what_is_covered_is_not_hidden() {
        let write = |target: &str| Shown { source: "/s".into(), target: target.into(), access: Access::Write };
        let sandbox = Sandbox {
            user_namespace: false,
            hidden: ["/tmp", "/home", "/home/me/data"].map(PathBuf::from).to_vec(),
            shown: vec![write("/tmp/x/run"), write("/tmp")],
            network: Network::None,
        };
        let encoded = sandbox.encode().unwrap();
        assert_eq!(encoded.hidden, b"/home\0");
        assert_eq!(encoded.shown, b"w\0/s\0/tmp\0w\0/s\0/tmp/x/run\0");
        assert_eq!(encoded.namespaces & CLONE_NEWUSER, 0);
        assert_ne!(encoded.namespaces & CLONE_NEWNET, 0);
    }
}
