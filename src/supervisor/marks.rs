//! What shows that a process belongs to a run, wherever it went.
//!
//! Two marks, both inherited: a variable of its environment, and a limit. The variable is lost with a cleared environment.
//! The limit is that of real-time CPU, which no engine uses, set to an unreachable number made of the run's id: a program
//! loses it only if it asks the kernel for another one.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::process::Pid;

use crate::domain::ids::RunId;

/// The environment variable that names the run a process belongs to.
pub const RUN_MARKER: &str = "SKILL_RUNNER_RUN_ID";

/// The limit that the processes of a run have: centuries of real-time CPU, and not without end.
pub(crate) fn mark_of(run: RunId) -> u64 {
    let (_, low) = run.0.as_u64_pair();
    (low | 1 << 63).min(u64::MAX - 1)
}

/// The marks of a process, and the folders it knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) run: Option<RunId>,
    pub(crate) limit: Option<u64>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) tmp_dir: Option<PathBuf>,
}

impl Marks {
    /// Those of the process that has this pid now.
    pub(crate) fn read(pid: Pid) -> Marks {
        let folder = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        // What this process may not read belongs to another user, so not to a run.
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        Marks {
            run: value(&environment, RUN_MARKER).and_then(|run| str::from_utf8(run).ok()?.parse().ok()),
            limit: real_time_limit(pid),
            cwd: fs::read_link(folder.join("cwd")).ok(),
            tmp_dir: value(&environment, "TMPDIR").map(|path| PathBuf::from(OsStr::from_bytes(path))),
        }
    }

    /// Whether a process with these marks belongs to the run.
    pub(crate) fn name(&self, run: RunId) -> bool {
        self.run == Some(run) || self.limit == Some(mark_of(run))
    }
}

fn value<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

fn real_time_limit(pid: Pid) -> Option<u64> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: nothing is set, and the kernel writes one limit.
    let read =
        unsafe { libc::prlimit64(pid.as_raw_nonzero().get(), libc::RLIMIT_RTTIME, std::ptr::null(), &raw mut limit) };
    (read == 0).then_some(limit.rlim_max)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let environment = b"XTMPDIR=/wrong\0TMPDIR_OLD=/wrong\0TMPDIR=/a=b\0";
        assert_eq!(value(environment, "TMPDIR"), Some(&b"/a=b"[..]));
        assert_eq!(value(environment, "TMP"), None);
    }

    #[test]
    fn either_mark_names_the_run_and_no_other() {
        let (run, other) = (RunId(Uuid::from_u128(7)), RunId(Uuid::from_u128(8)));
        let by_limit = Marks { limit: Some(mark_of(run)), ..Marks::default() };
        let by_variable = Marks { run: Some(run), limit: Some(u64::MAX), ..Marks::default() };
        for marks in [by_limit, by_variable] {
            assert_eq!((marks.name(run), marks.name(other)), (true, false));
        }
        let none = Marks { limit: Some(u64::MAX), ..Marks::default() };
        assert!(![run, other, RunId(Uuid::from_u128(u128::MAX))].into_iter().any(|run| none.name(run)));
        assert!(!Marks::default().name(run));
    }

    #[test]
    fn a_limit_is_never_small_and_never_none() {
        for id in [0, 1, u128::MAX, 1 << 63] {
            let mark = mark_of(RunId(Uuid::from_u128(id)));
            assert!((1 << 63..u64::MAX).contains(&mark), "{mark}");
        }
    }
}
