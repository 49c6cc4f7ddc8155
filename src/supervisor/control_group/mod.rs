//! Control groups of runs: the kernel's own bounds on memory and processes, and exact processor time.
//!
//! A run's group is a folder below the service's own; in version 1 there is one in each hierarchy. It goes with the run; that of
//! a service that was killed is removed by the shim.

mod version_1;
mod version_2;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::warn;

use crate::domain::ids::RunId;
use crate::domain::resources::{Exceeded, ResourceLimits};
pub use version_1::Hierarchies;
pub use version_2::Controllers;

/// Groups of runs begin so.
const PREFIX: &str = "skill-runner-";
/// A group without processes that is older is of nobody.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(60);
/// There where systemd is at work, to whom all groups belong that it has not given away.
const SYSTEMD: &str = "/run/systemd/system";

/// Whether runs have control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlGroups {
    /// Below this folder, of version 2.
    Below { folder: PathBuf, controllers: Controllers },
    /// Below these folders, of version 1.
    BelowEach(Hierarchies),
    /// They have none, for this reason.
    Missing { reason: String },
    /// They are switched off.
    Off,
}

impl ControlGroups {
    /// Finds the service's own group and makes ready to have others below it: those that can limit both memory and processes,
    /// since for less they are not worth their price, unless `any` are wanted. Blocks.
    pub fn find(any: bool) -> ControlGroups {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (own, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
        let version_2 = |any| {
            let folder =
                version_2::own_folder(&own, &mounts).ok_or("this machine has no control groups of version 2")?;
            Ok(ControlGroups::Below { controllers: version_2::make_ready(&folder, any)?, folder })
        };
        // Where nothing else was asked for, what belongs to systemd is left to it.
        let version_1 = || match Path::new(SYSTEMD).exists() && !any {
            true => Err("those of version 1 belong to systemd".to_owned()),
            false => Hierarchies::find(&own, &mounts).map(ControlGroups::BelowEach),
        };
        let limiting = version_2(false).or_else(|why| version_1().map_err(|other| format!("{why}; {other}")));
        let found = if any { limiting.or_else(|_: String| version_2(true)) } else { limiting };
        found.unwrap_or_else(|reason| ControlGroups::Missing { reason })
    }

    /// Removes groups that nobody uses any more.
    pub(crate) fn sweep(&self) {
        let folders = match self {
            ControlGroups::Below { folder, .. } => vec![folder],
            ControlGroups::BelowEach(hierarchies) => hierarchies.folders().collect(),
            ControlGroups::Missing { .. } | ControlGroups::Off => Vec::new(),
        };
        for entry in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten() {
            let is_runs = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
            let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|made| made.elapsed().ok());
            if is_runs && age.is_some_and(|age| age >= LEFT_BEHIND_AFTER) {
                // One that has processes cannot be removed.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }

    /// A group for one process of a run, with its limits.
    pub(crate) fn make(&self, run: RunId, limits: &ResourceLimits) -> Option<Group> {
        let name = format!("{PREFIX}{run}-{}", next_number());
        let made = match self {
            ControlGroups::Below { folder, controllers } => {
                version_2::Group::make(folder.join(name), *controllers, limits).map(Group::Whole)
            }
            ControlGroups::BelowEach(hierarchies) => hierarchies.make(&name, limits).map(Group::InEach),
            ControlGroups::Missing { .. } | ControlGroups::Off => return None,
        };
        made.inspect_err(|error| warn!(run.id = %run, %error, "a run has no control group")).ok()
    }
}

/// One that no other group of this process has.
fn next_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// The group of one process and everything it starts; removed when this is dropped.
#[derive(Debug)]
pub(crate) enum Group {
    Whole(version_2::Group),
    InEach(version_1::Group),
}

/// How an engine gets into its group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// It is born in this one.
    pub(crate) born: Option<PathBuf>,
    /// It goes into these before its program begins.
    pub(crate) joined: Vec<PathBuf>,
}

impl Group {
    pub(crate) fn entry(&self) -> Entry {
        match self {
            Group::Whole(group) => Entry { born: Some(group.folder().to_owned()), joined: Vec::new() },
            Group::InEach(group) => Entry { born: None, joined: group.folders().map(Path::to_owned).collect() },
        }
    }

    /// Whether this process is in it.
    pub(crate) fn holds(&self, pid: u32) -> bool {
        match self {
            Group::Whole(group) => group.holds(pid),
            Group::InEach(group) => group.holds(pid),
        }
    }

    /// The limit that its processes have met, as the kernel has counted it.
    pub(crate) fn exceeded(&self, limits: &ResourceLimits) -> Option<Exceeded> {
        match self {
            Group::Whole(group) => group.exceeded(limits),
            Group::InEach(group) => group.exceeded(limits),
        }
    }
}

/// The place of a mounted group, as `/proc/self/mountinfo` tells it: its root in the hierarchy, and the folder.
fn mounted<'a>(mounts: &'a str, is_it: impl Fn(&str) -> bool) -> Option<(&'a str, &'a str)> {
    mounts.lines().find_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        is_it(behind).then_some((fields.next()?, fields.next()?))
    })
}

/// The folder of a group whose path in the hierarchy is known.
fn seen_at((root, place): (&str, &str), path: &str) -> Option<PathBuf> {
    // Seen from another namespace, the group may be outside of what is mounted.
    let below = Path::new(path).strip_prefix(root).ok().filter(|below| !below.iter().any(|part| part == ".."))?;
    Some(Path::new(place).join(below))
}

/// Whether groups can be made in a folder.
fn try_to_make(folder: &Path) -> Result<(), String> {
    let tried = folder.join(format!("{PREFIX}probe-{}-{}", std::process::id(), next_number()));
    fs::create_dir(&tried).and_then(|()| fs::remove_dir(&tried)).map_err(cannot(folder))
}

fn cannot(folder: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("no control groups can be made in {}: {error}", folder.display())
}

/// The number behind a name, in a file of a group with one on each line.
fn counted(file: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.split_once(' ').filter(|(own, _)| *own == name));
    value.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}
