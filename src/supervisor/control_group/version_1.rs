//! Control groups of version 1: a hierarchy for each controller, so that a group is a folder in each of three.
//!
//! A process cannot be born in one, and moving another process waits for all processors, up to tens of milliseconds. A process
//! with one thread that moves itself (by writing `0` to `tasks`) waits for nobody, so the engine's process goes there itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::place::{counted, mounted, seen_at, try_to_make};
use crate::domain::resources::{Exceeded, Resource, ResourceLimits};

/// The service's own group in each hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchies {
    memory: PathBuf,
    processes: PathBuf,
    /// Where processor time is counted; not everybody may make groups there.
    time: Option<PathBuf>,
}

impl Hierarchies {
    /// As the system tells of them; both memory and processes must be there.
    pub(super) fn find(groups: &str, mounts: &str) -> Result<Hierarchies, String> {
        let own = |controller| {
            let folder = own_folder(controller, groups, mounts);
            let folder = folder.ok_or_else(|| format!("the controller {controller} of version 1 is not mounted"))?;
            try_to_make(&folder).map(|()| folder)
        };
        let (memory, processes) = (own("memory")?, own("pids")?);
        if fs::read_to_string(memory.join("memory.use_hierarchy")).is_ok_and(|used| used.trim() == "0") {
            // What a run uses would then not count as the service's, which may have a limit of its own.
            return Err(format!("the memory of groups below {} is not counted in it", memory.display()));
        }
        let time = own("cpuacct").ok().filter(|time| *time != memory && *time != processes);
        match memory == processes {
            true => Err(format!("one hierarchy of version 1 has all controllers: {}", memory.display())),
            false => Ok(Hierarchies { memory, processes, time }),
        }
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.memory, &self.processes].into_iter().chain(&self.time)
    }

    pub(super) fn make(&self, name: &str, limits: &ResourceLimits) -> io::Result<Group> {
        let group = Group {
            memory: self.memory.join(name),
            processes: self.processes.join(name),
            time: self.time.as_ref().map(|folder| folder.join(name)),
            name: name.to_owned(),
        };
        // What was made before one that fails goes with it.
        group.folders().try_for_each(fs::create_dir)?;
        group.limit(limits).map(|()| group)
    }
}

/// The folder of this process's group in the hierarchy of a controller.
fn own_folder(controller: &str, groups: &str, mounts: &str) -> Option<PathBuf> {
    let path = path_in(controller, groups)?;
    let has_it = |behind: &str| {
        let mut fields = behind.split(' ');
        let is_version_1 = fields.next() == Some("cgroup");
        is_version_1 && fields.nth(1).is_some_and(|options| options.split(',').any(|option| option == controller))
    };
    seen_at(mounted(mounts, has_it)?, path)
}

/// The path of a process's group, in the text of its `/proc/<pid>/cgroup`.
fn path_in<'a>(controller: &str, groups: &'a str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|one| one == controller).then_some(path)
    })
}

/// The group of one process and everything it starts; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    memory: PathBuf,
    processes: PathBuf,
    time: Option<PathBuf>,
    name: String,
}

impl Group {
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        [&self.memory, &self.processes].into_iter().chain(&self.time).map(PathBuf::as_path)
    }

    fn limit(&self, limits: &ResourceLimits) -> io::Result<()> {
        let bytes = limits.memory_bytes.to_string();
        fs::write(self.memory.join("memory.limit_in_bytes"), &bytes)?;
        // Memory and swap together; a kernel without swap has no such file.
        let _ = fs::write(self.memory.join("memory.memsw.limit_in_bytes"), &bytes);
        fs::write(self.processes.join("pids.max"), limits.processes.to_string())
    }

    /// Whether this process is in it, in every hierarchy.
    pub(super) fn holds(&self, pid: u32) -> bool {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        self.is_named_in(&groups)
    }

    fn is_named_in(&self, groups: &str) -> bool {
        let is_in = |controller| path_in(controller, groups).is_some_and(|path| Path::new(path).ends_with(&self.name));
        is_in("memory") && is_in("pids") && (self.time.is_none() || is_in("cpuacct"))
    }

    /// The limit that its processes have met, as the kernel has counted it.
    pub(super) fn exceeded(&self, limits: &ResourceLimits) -> Option<Exceeded> {
        let number =
            |file: PathBuf| fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        // A process that was ended because the whole machine was short of memory has not met the limit of its run: then the group
        // never had that much. What does not fit is often more than a page, so that it need not have been the very limit.
        let most = number(self.memory.join("memory.max_usage_in_bytes"));
        let short = counted(&self.memory.join("memory.oom_control"), "oom_kill") > 0
            && most >= limits.memory_bytes - limits.memory_bytes / 8;
        let memory = short.then(|| limits.met(Resource::Memory));
        let forks = || counted(&self.processes.join("pids.events"), "max") > 0;
        let time = || {
            let nanoseconds = number(self.time.as_ref()?.join("cpuacct.usage"));
            limits.exceeded(Resource::Cpu, Duration::from_nanos(nanoseconds).as_secs())
        };
        memory.or_else(|| forks().then(|| limits.met(Resource::Processes))).or_else(time)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in self.folders() {
            // With a process that the kernel cannot end it stays, and is removed by a later start.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 /box /sys/fs/cgroup/memory ro,nosuid shared:3 - cgroup cgroup rw,memory\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_group_is_found_in_the_hierarchy_of_its_controller() {
        let groups = "9:name=systemd:/\n4:memory:/box/a:b\n2:cpu,cpuacct:/\n0::/memory\n";
        let found =
            |controller: &str| own_folder(controller, groups, MOUNTS).map(|folder| folder.display().to_string());
        assert_eq!(found("memory"), Some("/sys/fs/cgroup/memory/a:b".to_owned()));
        assert_eq!(found("cpuacct"), Some("/sys/fs/cgroup/cpu,cpuacct/".to_owned()));
        assert_eq!(found("pids"), None);
        for outside in ["4:memory:/other\n", "4:memory:/box/../other\n"] {
            assert_eq!(own_folder("memory", outside, MOUNTS), None, "{outside}");
        }
        let refused = Hierarchies::find("4:memory:/other\n", MOUNTS).unwrap_err();
        assert_eq!(refused, "the controller memory of version 1 is not mounted");
    }

    /// Folders as a kernel would give them, with what it has counted.
    fn group(counts: [(&str, &str); 4]) -> (tempfile::TempDir, Group) {
        let folder = tempfile::tempdir().unwrap();
        let [memory, processes, time] = ["memory", "pids", "cpuacct"].map(|name| folder.path().join(name));
        for place in [&memory, &processes, &time] {
            fs::create_dir(place).unwrap();
        }
        let hierarchies = Hierarchies { memory, processes, time: Some(time) };
        let group = hierarchies.make("skill-runner-x-0", &limits()).unwrap();
        for ((file, text), place) in counts.iter().zip(["memory", "memory", "pids", "cpuacct"]) {
            fs::write(folder.path().join(place).join("skill-runner-x-0").join(file), text).unwrap();
        }
        (folder, group)
    }

    fn limits() -> ResourceLimits {
        ResourceLimits { memory_bytes: 1 << 30, processes: 64, cpu_seconds: 10, ..ResourceLimits::default() }
    }

    const QUIET: [(&str, &str); 4] = [
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"),
        ("memory.max_usage_in_bytes", "1073000000\n"),
        ("pids.events", "max 0\n"),
        ("cpuacct.usage", "10999999999\n"),
    ];

    #[test]
    fn limits_are_written_and_what_the_kernel_counted_is_read() {
        let (folder, calm) = group(QUIET);
        let written = ["memory/skill-runner-x-0/memory.limit_in_bytes", "pids/skill-runner-x-0/pids.max"]
            .map(|file| fs::read_to_string(folder.path().join(file)).unwrap());
        assert_eq!(written, ["1073741824", "64"]);
        assert_eq!(calm.exceeded(&limits()), None);
        for (at, text, seen) in [
            (0, "oom_kill 1\n", Some((Resource::Memory, 1 << 30))),
            (2, "max 7\n", Some((Resource::Processes, 64))),
            (3, "11000000000\n", Some((Resource::Cpu, 11))),
        ] {
            let mut counts = QUIET;
            counts[at].1 = text;
            let exceeded = group(counts).1.exceeded(&limits());
            assert_eq!(exceeded.map(|exceeded| (exceeded.resource, exceeded.seen)), seen);
        }
        // The machine was short of memory, not the group.
        let mut counts = QUIET;
        (counts[0].1, counts[1].1) = ("oom_kill 1\n", "900000000\n");
        assert_eq!(group(counts).1.exceeded(&limits()), None);
    }

    #[test]
    fn a_process_is_in_a_group_if_it_is_in_all_of_its_folders() {
        let (_folder, group) = group(QUIET);
        let all = "8:pids:/skill-runner-x-0\n4:memory:/own/skill-runner-x-0\n2:cpu,cpuacct:/skill-runner-x-0\n";
        assert!(group.is_named_in(all));
        for (one, elsewhere) in
            [("8:pids:/skill", "8:pids:/other-skill"), ("4:memory:/own/skill-runner-x-0", "4:memory:/own")]
        {
            assert!(!group.is_named_in(&all.replace(one, elsewhere)), "{elsewhere}");
        }
    }

    #[test]
    fn what_cannot_be_made_whole_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let memory = folder.path().join("memory");
        fs::create_dir(&memory).unwrap();
        let hierarchies = Hierarchies { memory: memory.clone(), processes: folder.path().join("missing"), time: None };
        hierarchies.make("skill-runner-x-0", &limits()).unwrap_err();
        assert_eq!(fs::read_dir(&memory).unwrap().count(), 0);
    }
}
