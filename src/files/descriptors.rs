//! The limit of open files: raised for this process, and given back to the programs that it starts.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More is never needed, and some programs take long if they may have more.
const ENOUGH: u64 = 65_536;

/// The limit that this process was started with, if it was raised.
static INHERITED: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of open files towards the hard one.
pub(crate) fn raise_open_files() -> io::Result<()> {
    let inherited = getrlimit(Resource::Nofile);
    let Some(raised) = raised(inherited) else { return Ok(()) };
    setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..inherited })?;
    // Raised once per process.
    let _ = INHERITED.set(inherited);
    Ok(())
}

fn raised(limit: Rlimit) -> Option<u64> {
    let wanted = limit.maximum.map_or(ENOUGH, |hard| hard.min(ENOUGH));
    limit.current.is_some_and(|soft| soft < wanted).then_some(wanted)
}

/// How many files this process may have open.
pub(crate) fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The limit that this process was started with, if it was raised: programs that use `select` fail with high descriptors.
pub(crate) fn inherited_open_files() -> Option<Rlimit> {
    INHERITED.get().copied()
}

/// The limit for a program that may have no more than `most` open files.
pub(crate) fn open_files_within(most: u64) -> Rlimit {
    let usual = inherited_open_files().unwrap_or_else(|| getrlimit(Resource::Nofile));
    let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    Rlimit { current: least(usual.current), maximum: least(usual.maximum) }
}

/// Gives it back to this process, which is about to become another program. It makes one system call.
pub(crate) fn restore_open_files() -> io::Result<()> {
    let Some(inherited) = INHERITED.get() else { return Ok(()) };
    Ok(setrlimit(Resource::Nofile, *inherited)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_what_is_allowed_and_enough() {
        let limit = |current, maximum| Rlimit { current, maximum };
        assert_eq!(raised(limit(Some(1024), Some(4096))), Some(4096));
        assert_eq!(raised(limit(Some(1024), Some(1 << 20))), Some(ENOUGH));
        assert_eq!(raised(limit(Some(1024), None)), Some(ENOUGH));
        assert_eq!(raised(limit(Some(4096), Some(4096))), None);
        assert_eq!(raised(limit(Some(1 << 20), Some(1 << 20))), None);
        assert_eq!(raised(limit(None, None)), None);
    }
}
