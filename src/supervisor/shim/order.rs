//! What a shim is told to start.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::process::Rlimit;
use skill_runner_shim::wire::{self, NulByte, Words};

use crate::domain::resources::ResourceLimits;
use crate::supervisor::control_group::Entry;
use crate::supervisor::sandbox::Sandbox;
use crate::supervisor::words::words;

/// A folder that the processes of one run see at another place, read-only. Nobody else sees it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOnlyBind {
    pub source: PathBuf,
    /// A folder that is there; what it holds is hidden from the run.
    pub target: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) mark: u64,
    /// The limit of open files, if it is not that of this process.
    pub(crate) open_files: Option<Rlimit>,
    /// The limits of a run, where it has any.
    pub(crate) limits: Option<ResourceLimits>,
    pub(crate) cwd: PathBuf,
    pub(crate) binds: Vec<ReadOnlyBind>,
    /// What the processes of the run see as `/tmp`; the machine's, if nothing is named.
    pub(crate) tmp: Option<PathBuf>,
    /// The way into its control group, where it has one.
    pub(crate) group: Entry,
    /// What they are confined by; it has a `/tmp` of its own.
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) argv: Vec<OsString>,
    /// Each name once.
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl Order {
    /// The message for the shim.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let nul = |NulByte| io::Error::new(io::ErrorKind::InvalidInput, "a NUL byte in an argument or variable");
        let cwd = words([self.cwd.as_os_str().as_bytes()]).map_err(nul)?;
        let folders = self.binds.iter().flat_map(|bind| [&bind.source, &bind.target]);
        let binds = words(folders.map(|folder| folder.as_os_str().as_bytes())).map_err(nul)?;
        let tmp = words(self.tmp.iter().map(|folder| folder.as_os_str().as_bytes())).map_err(nul)?;
        let group = words(self.group.born.iter().map(|folder| folder.as_os_str().as_bytes())).map_err(nul)?;
        let joined = words(self.group.joined.iter().map(|folder| folder.as_os_str().as_bytes())).map_err(nul)?;
        let sandbox = self.sandbox.as_ref().map(Sandbox::encode).transpose().map_err(nul)?;
        let argv = words(self.argv.iter().map(|word| word.as_bytes())).map_err(nul)?;
        let variables = self.env.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let env = words(variables).map_err(nul)?;
        let order = wire::Order {
            mark: self.mark,
            open_files: self.open_files.map_or([0; 2], |Rlimit { current, maximum }| {
                [current, maximum].map(|limit| limit.unwrap_or(u64::MAX))
            }),
            file_bytes: self.limits.map_or(0, |limits| limits.file_bytes),
            cpu_seconds: self.limits.map_or(0, |limits| limits.cpu_seconds),
            cwd: Words::new(&cwd),
            binds: Words::new(&binds),
            tmp: Words::new(&tmp),
            group: Words::new(&group),
            joined: Words::new(&joined),
            sandbox: sandbox.as_ref().map_or(wire::Sandbox::NONE, |encoded| encoded.as_wire()),
            argv: Words::new(&argv),
            env: Words::new(&env),
        };
        let mut message = Vec::new();
        order.encode(&mut message);
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_encoded_word_by_word() {
        let order = Order {
            mark: 5,
            open_files: Some(Rlimit { current: Some(1024), maximum: None }),
            limits: Some(ResourceLimits { file_bytes: 7, cpu_seconds: 8, ..ResourceLimits::default() }),
            cwd: "/work".into(),
            binds: vec![ReadOnlyBind { source: "/from".into(), target: "/to".into() }],
            tmp: Some("/own".into()),
            group: Entry { born: Some("/groups/one".into()), joined: vec!["/memory/one".into(), "/pids/one".into()] },
            sandbox: None,
            argv: vec!["sh".into(), "".into()],
            env: vec![("A".into(), "b=c".into()), ("EMPTY".into(), "".into())],
        };
        let message = order.encode().unwrap();
        let decoded = wire::Order {
            mark: 5,
            open_files: [1024, u64::MAX],
            file_bytes: 7,
            cpu_seconds: 8,
            cwd: Words::new(b"/work\0"),
            binds: Words::new(b"/from\0/to\0"),
            tmp: Words::new(b"/own\0"),
            group: Words::new(b"/groups/one\0"),
            joined: Words::new(b"/memory/one\0/pids/one\0"),
            sandbox: wire::Sandbox::NONE,
            argv: Words::new(b"sh\0\0"),
            env: Words::new(b"A=b=c\0EMPTY=\0"),
        };
        assert_eq!(wire::Order::decode(&message[4..]), Some(decoded));
        let broken = Order { argv: vec!["a\0b".into()], ..order };
        assert_eq!(broken.encode().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
