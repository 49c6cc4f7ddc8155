//! Control groups of version 2: one hierarchy for everything.
//!
//! The shim lets the engine be born in its group: moving a process there later would wait for all processors.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::debug;

use super::place::{SYSTEMD, cannot, counted, mounted, seen_at, try_to_make};
use crate::domain::resources::{Exceeded, Resource, ResourceLimits};

/// The group of the service itself, where it must not be among those of its runs.
const OWN: &str = "skill-runner";
/// The controllers that are asked for.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// What groups can limit. Processor time is always counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Controllers {
    pub memory: bool,
    pub processes: bool,
}

impl Controllers {
    fn named_in(file: &Path) -> Controllers {
        let text = fs::read_to_string(file).unwrap_or_default();
        let [memory, processes] = CONTROLLERS.map(|name| text.split_whitespace().any(|one| one == name));
        Controllers { memory, processes }
    }

    fn are_all(self) -> bool {
        self.memory && self.processes
    }
}

/// The folder of this process's group, as the system tells of it.
pub(super) fn own_folder(groups: &str, mounts: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    seen_at(mounted(mounts, |behind| behind.split(' ').next() == Some("cgroup2"))?, own)
}

/// What [`make_ready`] would come to in the group of this process, or has come to for a service that is this process; changes nothing.
pub(super) fn look(folder: PathBuf, any: bool, service: Option<i32>) -> Result<(PathBuf, Controllers), String> {
    // A service that runs is in a group beside those of its runs, or in the root of all.
    let above = folder.parent().filter(|_| service.is_some() && folder.file_name().is_some_and(|name| name == OWN));
    let folder = above.map_or(folder.clone(), Path::to_owned);
    let is_root = !folder.join("cgroup.type").exists();
    let controllers = match service {
        Some(_) if above.is_some() || is_root => Controllers::named_in(&folder.join("cgroup.subtree_control")),
        Some(_) => Controllers::default(),
        None => Controllers::named_in(&folder.join("cgroup.controllers")),
    };
    if !(any || controllers.are_all()) {
        // Why it could not have more is what it would find now, too.
        alone(&folder, is_root || above.is_some(), service)?;
        return Err(too_few(&folder));
    }
    if service.is_none() {
        alone(&folder, is_root, None)?;
        for place in [folder.clone(), folder.join("cgroup.subtree_control")] {
            rustix::fs::access(&place, rustix::fs::Access::WRITE_OK).map_err(|error| cannot(&folder)(error.into()))?;
        }
    }
    Ok((folder, controllers))
}

fn too_few(folder: &Path) -> String {
    format!("the memory and the processes of groups below {} cannot be limited", folder.display())
}

/// Lets groups below this one have limits; which ones. Nothing is changed where they would be too few.
pub(super) fn make_ready(folder: &Path, any: bool) -> Result<Controllers, String> {
    if !(any || Controllers::named_in(&folder.join("cgroup.controllers")).are_all()) {
        return Err(too_few(folder));
    }
    // Only the root of all groups does not say what it is. Any other must not have processes and limited groups at once.
    if folder.join("cgroup.type").exists() {
        leave(folder)?;
    }
    let enabled = folder.join("cgroup.subtree_control");
    for controller in CONTROLLERS {
        if let Err(error) = fs::write(&enabled, format!("+{controller}")) {
            debug!(controller, %error, "groups of runs cannot be limited");
        }
    }
    try_to_make(folder)?;
    let controllers = Controllers::named_in(&enabled);
    if any || controllers.are_all() { Ok(controllers) } else { Err(too_few(folder)) }
}

/// The service goes into a group of its own below this one, if it is alone here and may.
fn leave(folder: &Path) -> Result<(), String> {
    let own = std::process::id().to_string();
    alone(folder, false, None)?;
    let service = folder.join(OWN);
    match fs::create_dir(&service) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(cannot(folder)(error)),
        Ok(()) | Err(_) => {}
    }
    fs::write(service.join("cgroup.procs"), own).map_err(cannot(folder))
}

/// Whether nobody but the service, which is this process or the one named, is in a group, and it may have it as its own.
fn alone(folder: &Path, for_all: bool, service: Option<i32>) -> Result<(), String> {
    if for_all {
        return Ok(());
    }
    let own = service.map_or_else(|| std::process::id().to_string(), |pid| pid.to_string());
    let processes = fs::read_to_string(folder.join("cgroup.procs")).map_err(cannot(folder))?;
    let given = ["trusted.delegate", "user.delegate"]
        .iter()
        .any(|name| rustix::fs::getxattr(folder, *name, &mut [0_u8; 8]).is_ok());
    if processes.lines().any(|pid| pid != own) || (Path::new(SYSTEMD).exists() && !given) {
        let why = "the service has no control group for itself alone: give it one (systemd: Delegate=yes)";
        return Err(format!("{why}; it is in {}", folder.display()));
    }
    Ok(())
}

/// The group of one process and everything it starts; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    controllers: Controllers,
}

impl Group {
    pub(super) fn make(folder: PathBuf, controllers: Controllers, limits: &ResourceLimits) -> io::Result<Group> {
        fs::create_dir(&folder)?;
        let group = Group { folder, controllers };
        group.limit(limits).map(|()| group)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn limit(&self, limits: &ResourceLimits) -> io::Result<()> {
        let set = |file: &str, value: &str| fs::write(self.folder.join(file), value);
        if self.controllers.memory {
            set("memory.max", &limits.memory_bytes.to_string())?;
            // A kernel without swap has no such file.
            let _ = set("memory.swap.max", "0");
            // All of a run, not the largest of its processes.
            let _ = set("memory.oom.group", "1");
        }
        if self.controllers.processes {
            set("pids.max", &limits.processes.to_string())?;
        }
        Ok(())
    }

    /// Whether this process is in it.
    pub(super) fn holds(&self, pid: u32) -> bool {
        let processes = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        processes.lines().any(|line| line.parse() == Ok(pid))
    }

    /// The limit that its processes have met, as the kernel has counted it.
    pub(super) fn exceeded(&self, limits: &ResourceLimits) -> Option<Exceeded> {
        let count = |file: &str, name: &str| counted(&self.folder.join(file), name);
        // A process that was ended because the whole machine was short of memory has not met the limit of its run.
        let short = || count("memory.events", "oom") > 0 && count("memory.events", "oom_kill") > 0;
        let memory = (self.controllers.memory && short()).then(|| limits.met(Resource::Memory));
        let processes =
            || (self.controllers.processes && count("pids.events", "max") > 0).then(|| limits.met(Resource::Processes));
        let seconds = || Duration::from_micros(count("cpu.stat", "usage_usec")).as_secs();
        memory.or_else(processes).or_else(|| limits.exceeded(Resource::Cpu, seconds()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // With a process that the kernel cannot end it stays, and is removed by a later start.
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_wherever_version_2_is_mounted() {
        let systemd = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let both = "36 32 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n37 32 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let container = "51 49 0:28 /box /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let found = |groups: &str, mounts: &str| own_folder(groups, mounts).map(|folder| folder.display().to_string());
        let service = "/sys/fs/cgroup/system.slice/runner.service".to_owned();
        assert_eq!(found("0::/system.slice/runner.service\n", systemd), Some(service));
        assert_eq!(found("8:pids:/\n4:memory:/x\n0::/\n", both), Some("/sys/fs/cgroup/unified/".to_owned()));
        assert_eq!(found("0::/box/inner\n", container), Some("/sys/fs/cgroup/inner".to_owned()));
        assert_eq!(found("0::/elsewhere\n", container), None);
        assert_eq!(found("0::/box/../other\n", container), None);
        assert_eq!(found("4:memory:/x\n", both), None);
        assert_eq!(found("0::/\n", ""), None);
    }

    /// A folder with the files of a group, as a kernel with both controllers would give them.
    fn group(events: [(&str, &str); 3]) -> (tempfile::TempDir, Group) {
        let folder = tempfile::tempdir().unwrap();
        events.iter().for_each(|(file, text)| fs::write(folder.path().join(file), text).unwrap());
        let group =
            Group { folder: folder.path().to_owned(), controllers: Controllers { memory: true, processes: true } };
        (folder, group)
    }

    #[test]
    fn limits_are_written_and_what_the_kernel_counted_is_read() {
        let limits =
            ResourceLimits { memory_bytes: 1 << 30, processes: 64, cpu_seconds: 10, ..ResourceLimits::default() };
        let quiet = [
            ("memory.events", "low 0\noom 3\noom_kill 0\n"),
            ("pids.events", "max 0\n"),
            ("cpu.stat", "usage_usec 10999999\n"),
        ];
        let (folder, calm) = group(quiet);
        calm.limit(&limits).unwrap();
        let written = ["memory.max", "memory.oom.group", "pids.max"]
            .map(|file| fs::read_to_string(folder.path().join(file)).unwrap());
        assert_eq!(written, ["1073741824", "1", "64"]);
        assert_eq!(calm.exceeded(&limits), None);
        // The machine was short of memory, not the group.
        let mut events = quiet;
        events[0].1 = "oom 0\noom_kill 1\n";
        assert_eq!(group(events).1.exceeded(&limits), None);
        for (at, text, resource, seen) in [
            (0, "oom 3\noom_kill 1\n", Resource::Memory, 1 << 30),
            (1, "max 7\n", Resource::Processes, 64),
            (2, "usage_usec 11000000\n", Resource::Cpu, 11),
        ] {
            let mut events = quiet;
            events[at].1 = text;
            let exceeded = group(events).1.exceeded(&limits).unwrap();
            assert_eq!((exceeded.resource, exceeded.seen), (resource, seen));
        }
    }

    /// The files of a group that is not the root of all, with what is in it.
    fn place(controllers: &str, enabled: &str, processes: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("cgroup.type", "domain\n"),
            ("cgroup.controllers", controllers),
            ("cgroup.subtree_control", enabled),
            ("cgroup.procs", processes),
        ] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        folder
    }

    #[test]
    fn a_look_tells_what_a_service_would_have_or_has_and_changes_nothing() {
        if Path::new(SYSTEMD).exists() {
            return;
        }
        let both = Controllers { memory: true, processes: true };
        let own = format!("{}\n", std::process::id());
        let ready = place("cpu memory pids\n", "", &own);
        let seen = |folder: &Path, any, service| {
            look(folder.to_owned(), any, service).map(|(found, controllers)| (found == ready.path(), controllers))
        };
        assert_eq!(seen(ready.path(), false, None), Ok((true, both)));
        assert_eq!(fs::read_dir(ready.path()).unwrap().count(), 4);
        assert_eq!(fs::read_to_string(ready.path().join("cgroup.subtree_control")).unwrap(), "");
        // Others are there, too; or the controllers are not.
        let shared = place("cpu memory pids\n", "", &format!("{own}1\n"));
        let refused = seen(shared.path(), false, None).unwrap_err();
        assert!(refused.starts_with("the service has no control group for itself alone"), "{refused}");
        let poor = place("cpu\n", "", &own);
        assert!(seen(poor.path(), false, None).unwrap_err().ends_with("cannot be limited"));
        assert_eq!(seen(poor.path(), true, None), Ok((false, Controllers::default())));
        // A service that runs has gone into a group of its own; one that could not is still where it was.
        fs::write(ready.path().join("cgroup.subtree_control"), "memory pids\n").unwrap();
        let service = ready.path().join(OWN);
        fs::create_dir(&service).unwrap();
        assert_eq!(seen(&service, false, Some(7)), Ok((true, both)));
        assert!(seen(shared.path(), false, Some(7)).unwrap_err().starts_with("the service has no control group"));
    }

    #[test]
    fn groups_that_can_limit_nothing_are_not_worth_it_and_nothing_is_changed_for_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.controllers"), "cpuset cpu io memory hugetlb\n").unwrap();
        let refused = make_ready(folder.path(), false).unwrap_err();
        assert!(refused.ends_with("cannot be limited"), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
