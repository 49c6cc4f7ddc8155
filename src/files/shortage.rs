//! Tells errors that a machine without room gives from all others: they are nobody's fault, and pass.

use std::error::Error;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

/// What there was not enough of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Open files of this process.
    OpenFiles,
    /// Open files of the whole machine.
    OpenFilesOfMachine,
    Memory,
    /// Space on a disk, or a quota of it.
    Disk,
    /// Processes and threads, of the user, of a control group or of the machine.
    Processes,
}

/// No process or thread could be started. A type of its own, because the system has the same number for whatever is not ready yet.
#[derive(Debug, thiserror::Error)]
#[error("no more processes or threads can be started: {0}")]
struct NotStarted(io::Error);

/// The error of a call that was to start a process or a thread, so that it is known as a shortage of them if it is one.
pub(crate) fn not_started(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::AGAIN) => io::Error::other(NotStarted(error)),
        _ => error,
    }
}

impl Shortage {
    /// What the error comes from, as far as its causes tell.
    pub(crate) fn behind(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if error.is::<NotStarted>() {
                return Some(Self::Processes);
            }
            let shared = error.downcast_ref::<Arc<io::Error>>().map(AsRef::as_ref);
            let found = error.downcast_ref::<io::Error>().or(shared).and_then(Self::of);
            if found.is_some() {
                return found;
            }
            next = error.source();
        }
        None
    }

    fn of(error: &io::Error) -> Option<Self> {
        let Some(errno) = Errno::from_io_error(error) else {
            // An error that was put into another one is none of its causes.
            return error.get_ref().and_then(|inner| Self::behind(inner).or_else(|| Self::named(&inner.to_string())));
        };
        match errno {
            Errno::MFILE => Some(Self::OpenFiles),
            Errno::NFILE => Some(Self::OpenFilesOfMachine),
            Errno::NOMEM | Errno::NOBUFS => Some(Self::Memory),
            Errno::NOSPC | Errno::DQUOT => Some(Self::Disk),
            _ => None,
        }
    }

    /// By the number that the text of an error has: that of a temporary file shows its cause there alone.
    fn named(text: &str) -> Option<Self> {
        let (number, _) = text.split_once("(os error ")?.1.split_once(')')?;
        Self::of(&io::Error::from_raw_os_error(number.parse().ok()?))
    }

    /// The cause, and what to do about it.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::OpenFiles => {
                "the service has as many files open as it may; try again later, or raise its limit of open files (ulimit -n)"
            }
            Self::OpenFilesOfMachine => "the machine has as many files open as it may; try again later",
            Self::Memory => "the machine has no memory left for it; try again later",
            Self::Disk => "the disk is full; free space, and try again",
            Self::Processes => {
                "no more processes or threads can be started; try again later, or raise the limit (ulimit -u, TasksMax of systemd)"
            }
        }
    }
}

impl From<Shortage> for io::Error {
    fn from(shortage: Shortage) -> Self {
        Self::from(match shortage {
            Shortage::OpenFiles => Errno::MFILE,
            Shortage::OpenFilesOfMachine => Errno::NFILE,
            Shortage::Memory => Errno::NOMEM,
            Shortage::Disk => Errno::NOSPC,
            Shortage::Processes => return not_started(Errno::AGAIN.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    #[test]
    fn what_is_not_ready_yet_is_a_shortage_only_where_something_was_to_be_started() {
        let again = || io::Error::from(Errno::AGAIN);
        assert_eq!(Shortage::behind(&again()), None);
        assert_eq!(Shortage::behind(&not_started(again())), Some(Shortage::Processes));
        assert_eq!(Shortage::behind(&io::Error::other(not_started(again()))), Some(Shortage::Processes));
        let in_file = files::Error::on("start a thread for", "x".as_ref())(not_started(again()));
        assert_eq!(Shortage::behind(&in_file), Some(Shortage::Processes));
        assert_eq!(Shortage::behind(&not_started(Errno::NOMEM.into())), Some(Shortage::Memory));
        assert_eq!(Shortage::behind(&not_started(Errno::NOENT.into())), None);
    }

    #[test]
    fn a_shortage_is_found_behind_other_errors() {
        let scarce = || io::Error::from(Errno::MFILE);
        let in_file = files::Error::on("open", "x".as_ref())(scarce());
        assert_eq!(Shortage::behind(&in_file), Some(Shortage::OpenFiles));
        assert_eq!(Shortage::behind(&io::Error::from(in_file)), Some(Shortage::OpenFiles));
        assert_eq!(Shortage::behind(&Arc::new(io::Error::from(Errno::NOSPC))), Some(Shortage::Disk));
        assert_eq!(Shortage::behind(&io::Error::from(Errno::NOENT)), None);
        assert_eq!(Shortage::behind(&io::Error::other(scarce())), Some(Shortage::OpenFiles));
        assert_eq!(Shortage::behind(&std::fmt::Error), None);
        let named = |number: i32| io::Error::other(format!("no such luck (os error {number}) at path \"/tmp/x\""));
        assert_eq!(Shortage::behind(&named(28)), Some(Shortage::Disk));
        assert_eq!(Shortage::behind(&named(24)), Some(Shortage::OpenFiles));
        assert_eq!(Shortage::behind(&named(2)), None);
    }
}
