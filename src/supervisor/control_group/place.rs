//! Where groups are, whatever their version, and what is read of their files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Groups of runs begin so.
pub(super) const PREFIX: &str = "skill-runner-";
/// There where systemd is at work, to whom all groups belong that it has not given away.
pub(super) const SYSTEMD: &str = "/run/systemd/system";

/// One that no other group of this process has.
pub(super) fn next_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// The place of a mounted group, as `/proc/self/mountinfo` tells it: its root in the hierarchy, and the folder.
pub(super) fn mounted(mounts: &str, is_it: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    mounts.lines().find_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        is_it(behind).then_some((fields.next()?, fields.next()?))
    })
}

/// The folder of a group whose path in the hierarchy is known.
pub(super) fn seen_at((root, place): (&str, &str), path: &str) -> Option<PathBuf> {
    // Seen from another namespace, the group may be outside of what is mounted.
    let below = Path::new(path).strip_prefix(root).ok().filter(|below| !below.iter().any(|part| part == ".."))?;
    Some(Path::new(place).join(below))
}

/// Whether groups can be made in a folder.
pub(super) fn try_to_make(folder: &Path) -> Result<(), String> {
    let tried = folder.join(format!("{PREFIX}probe-{}-{}", std::process::id(), next_number()));
    fs::create_dir(&tried).and_then(|()| fs::remove_dir(&tried)).map_err(cannot(folder))
}

pub(super) fn cannot(folder: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("no control groups can be made in {}: {error}", folder.display())
}

/// The number behind a name, in a file of a group with one on each line.
pub(super) fn counted(file: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.split_once(' ').filter(|(own, _)| *own == name));
    value.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}
