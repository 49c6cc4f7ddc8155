//! Control groups of runs: the kernel's own bounds on memory and processes, and exact processor time.
//!
//! A run's group is a folder below the service's own; in version 1 there is one in each hierarchy. It goes with the run; that of
//! a service that was killed is removed by the shim.

mod place;
mod version_1;
mod version_2;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::warn;

use crate::domain::ids::RunId;
use crate::domain::resources::{Exceeded, ResourceLimits};
use place::{PREFIX, SYSTEMD, next_number};
pub use version_1::Hierarchies;
pub use version_2::Controllers;

const NO_VERSION_2: &str = "this machine has no control groups of version 2";
/// A group without processes that is older is of nobody.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(60);

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
            let folder = version_2::own_folder(&own, &mounts).ok_or(NO_VERSION_2)?;
            Ok(ControlGroups::Below { controllers: version_2::make_ready(&folder, any)?, folder })
        };
        choose(any, version_2, || Hierarchies::find(&own, &mounts))
    }

    /// What `find` would come to for a service that is not there yet, or has come to for one that runs as this process; changes nothing.
    /// Blocks.
    pub fn look(any: bool, service: Option<i32>) -> ControlGroups {
        let process = service.map_or("self".to_owned(), |pid| pid.to_string());
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
        let (own, mounts) = (read("cgroup"), read("mountinfo"));
        let version_2 = |any| {
            let folder = version_2::own_folder(&own, &mounts).ok_or(NO_VERSION_2)?;
            let (folder, controllers) = version_2::look(folder, any, service)?;
            Ok(ControlGroups::Below { folder, controllers })
        };
        choose(any, version_2, || Hierarchies::find(&own, &mounts))
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

/// The groups that are used, of those that can be had: of either version if they limit, else, if any are wanted, of version 2.
fn choose(
    any: bool,
    version_2: impl Fn(bool) -> Result<ControlGroups, String>,
    version_1: impl Fn() -> Result<Hierarchies, String>,
) -> ControlGroups {
    // Where nothing else was asked for, what belongs to systemd is left to it.
    let version_1 = || match Path::new(SYSTEMD).exists() && !any {
        true => Err("those of version 1 belong to systemd".to_owned()),
        false => version_1().map(ControlGroups::BelowEach),
    };
    let limiting = version_2(false).or_else(|why| version_1().map_err(|other| format!("{why}; {other}")));
    let found = if any { limiting.or_else(|_: String| version_2(true)) } else { limiting };
    found.unwrap_or_else(|reason| ControlGroups::Missing { reason })
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
