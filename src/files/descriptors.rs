//! The limit of open files: raised for this process, and given back to the programs that it starts.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More is never needed. Programs that take long if they may have so many are given what there was before.
const ENOUGH: u64 = 131_072;

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
    within(most, getrlimit(Resource::Nofile), inherited_open_files())
}

/// Files that are on their way through sockets count for the user, and whoever sends one may have no fewer open files than there are. So
/// no program has as many as this process, which could start no other then. One that could raise its own, and has not, starts one alone.
fn within(most: u64, own: Rlimit, inherited: Option<Rlimit>) -> Rlimit {
    let usual = inherited.unwrap_or(own);
    let raised = inherited.is_some() || own.current == own.maximum;
    let most = own.current.filter(|_| raised).map_or(most, |own| most.min(own / 4 * 3));
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

    #[test]
    fn a_program_may_have_fewer_open_files_than_the_service_has() {
        let limit = |current, maximum| Rlimit { current: Some(current), maximum: Some(maximum) };
        let inherited = limit(1024, 1 << 20);
        assert_eq!(within(65_536, limit(ENOUGH, 1 << 20), Some(inherited)), limit(1024, 65_536));
        assert_eq!(within(65_536, limit(4096, 4096), Some(limit(1024, 4096))), limit(1024, 3072));
        assert_eq!(within(65_536, limit(4096, 4096), None), limit(3072, 3072));
        assert_eq!(within(65_536, limit(1024, 1 << 20), None), limit(1024, 65_536), "not raised");
        assert_eq!(within(200, limit(4096, 4096), None), limit(200, 200));
    }
}
