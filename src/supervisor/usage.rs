//! What the processes of runs use, read from `/proc`: one look at all processes serves every run.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead};
use std::sync::LazyLock;

use skill_runner_shim::stat::Stat;

use crate::domain::resources::{Exceeded, Resource, ResourceLimits};

/// A process as one look found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Task {
    pid: i32,
    parent: i32,
    started: u64,
    threads: u64,
    /// Clock ticks, with those of the children it has waited for.
    ticks: u64,
    /// Pages in memory, also those it shares with others.
    pages: u64,
}

impl Task {
    fn parse(pid: i32, line: &[u8]) -> Option<Task> {
        let Stat { parent, started, .. } = Stat::parse(line)?;
        // The second field is the program's name in parentheses; the fields behind it are counted from 3.
        let name_end = line.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(line.get(name_end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = [14, 15, 16, 17].into_iter().map(|number| field(number).unwrap_or(0)).sum();
        Some(Task { pid, parent, started, threads: field(20)?, ticks, pages: field(24)? })
    }
}

/// Whether a process is seen as it is whatever it calls itself.
#[cfg(any(test, fuzzing))]
pub(crate) fn foreign(name: &[u8]) -> bool {
    let line = [b"7 (", name, b") S 1 7 7 0 -1 0 0 0 0 0 3 4 5 6 20 0 9 0 1000 4096000 25 0"].concat();
    Task::parse(7, &line) == Some(Task { pid: 7, parent: 1, started: 1000, threads: 9, ticks: 18, pages: 25 })
}

/// All processes of one moment, each below its parent.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    by_pid: HashMap<i32, Task>,
    children: HashMap<i32, Vec<i32>>,
}

impl Tasks {
    /// Looks at every process that can be seen.
    pub(crate) fn look() -> io::Result<Tasks> {
        let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let read = |pid: i32| Task::parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?);
        Ok(Tasks::of(pids.filter_map(read)))
    }

    fn of(tasks: impl Iterator<Item = Task>) -> Tasks {
        let mut all = Tasks::default();
        for task in tasks {
            all.by_pid.insert(task.pid, task);
            all.children.entry(task.parent).or_default().push(task.pid);
        }
        all
    }

    /// The processes below this one, without it. Who is older than its parent has got the pid of another since.
    fn below(&self, root: Task) -> Vec<Task> {
        let mut found = Vec::new();
        let mut waiting = vec![root];
        while let Some(parent) = waiting.pop() {
            let children = self.children.get(&parent.pid).into_iter().flatten().filter_map(|pid| self.by_pid.get(pid));
            let children = children.filter(|child| child.started >= parent.started && child.pid != root.pid);
            let before = found.len();
            found.extend(children);
            waiting.extend_from_slice(found.get(before..).unwrap_or_default());
        }
        found
    }

    /// The processes below this shim.
    pub(crate) fn pids_below(&self, shim: i32) -> Vec<i32> {
        let below = self.by_pid.get(&shim).map(|shim| self.below(*shim)).unwrap_or_default();
        below.into_iter().map(|task| task.pid).collect()
    }

    /// What of the limits the processes below this shim have met; so many of them are the runner's own.
    pub(crate) fn exceeded(&self, shim: i32, own: u64, limits: &ResourceLimits) -> Option<Exceeded> {
        let shim = *self.by_pid.get(&shim)?;
        let tasks = self.below(shim);
        let threads = tasks.iter().map(|task| task.threads).sum::<u64>().saturating_sub(own);
        // The shim has waited for every orphan of the run, so no processor time is lost with a process.
        let ticks: u64 = tasks.iter().chain([&shim]).map(|task| task.ticks).sum();
        let seconds = ticks / rustix::param::clock_ticks_per_second().max(1);
        let open: Vec<(i32, u64)> = tasks.iter().map(|task| (task.pid, open_files(task.pid))).collect();
        let most = open.iter().map(|(_, files)| *files).max().unwrap_or_default();
        (limits.exceeded(Resource::Processes, threads))
            .or_else(|| memory(&tasks).and_then(|seen| limits.exceeded(Resource::Memory, seen)))
            .filter(|exceeded| exceeded.resource != Resource::Memory || confirmed(&tasks, limits))
            .or_else(|| limits.exceeded(Resource::Cpu, seconds))
            .or_else(|| limits.exceeded(Resource::OpenFiles, most))
            .or_else(|| too_many_watched(&open, limits))
    }
}

/// At most so many bytes of memory: pages that processes share are counted for each of them.
fn memory(tasks: &[Task]) -> Option<u64> {
    let pages: u64 = tasks.iter().map(|task| task.pages).sum();
    u64::try_from(rustix::param::page_size()).ok().map(|size| pages.saturating_mul(size))
}

/// Whether the memory is too much if each shared page is counted once. That takes the kernel longer to tell.
fn confirmed(tasks: &[Task], limits: &ResourceLimits) -> bool {
    let used = tasks.iter().map(proportional).sum();
    limits.exceeded(Resource::Memory, used).is_some()
}

/// The memory of a process, with its part of the pages that it shares with others.
fn proportional(task: &Task) -> u64 {
    let told = match fs::read_to_string(format!("/proc/{}/smaps_rollup", task.pid)) {
        Ok(told) => told,
        // A process can keep its memory from being looked at: then all that it shares counts.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return memory(std::slice::from_ref(task)).unwrap_or(0);
        }
        // It is gone.
        Err(_) => return 0,
    };
    let kib = |line: &str| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok();
    told.lines().find_map(kib).unwrap_or(0).saturating_mul(1024)
}

/// The places in sets of epoll, of all processes together, if they are as many as one process may have open files, or more than a run's
/// part of those that the kernel gives the user: without any, the service cannot take a connection.
fn too_many_watched(open: &[(i32, u64)], limits: &ResourceLimits) -> Option<Exceeded> {
    static OF_USER: LazyLock<u64> = LazyLock::new(|| {
        let told = fs::read_to_string("/proc/sys/fs/epoll/max_user_watches").unwrap_or_default();
        told.trim().parse().unwrap_or(u64::MAX)
    });
    let open_files = limits.open_files.max(WATCHED_ALWAYS).min(*OF_USER / PART_OF_WATCHED);
    let limits = ResourceLimits { open_files, ..*limits };
    let met = |watched: u64| limits.exceeded(Resource::OpenFiles, watched);
    // Half of the files watch the other half: usually that is far from too many, and nobody looks.
    met(open.iter().map(|(_, files)| files * files / 4).sum())?;
    let mut watched = 0;
    for (pid, files) in open {
        watched += watched_by(*pid, *files, limits.open_files.saturating_sub(watched));
        if let Some(exceeded) = met(watched) {
            return Some(exceeded);
        }
    }
    None
}

/// So many are never too many: they are those of all processes, and the limit is that of one.
const WATCHED_ALWAYS: u64 = 4096;
/// A run may have one in so many of the places in sets of epoll.
const PART_OF_WATCHED: u64 = 16;

/// How many places a process has in sets of epoll, counted up to this many. One that does not let them be seen has as many as it can have.
fn watched_by(pid: i32, files: u64, most: u64) -> u64 {
    let unseen = files * files / 4;
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return unseen };
    let mut watched = 0;
    for entry in entries.flatten() {
        match fs::read_link(entry.path()) {
            Ok(leads) if leads.as_os_str() == "anon_inode:[eventpoll]" => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return unseen,
            Ok(_) | Err(_) => continue,
        }
        let path = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
        let Ok(told) = fs::File::open(path) else { continue };
        let lines = io::BufReader::new(told).split(b'\n').map_while(Result::ok);
        let left = usize::try_from(most.saturating_sub(watched)).unwrap_or(usize::MAX);
        watched += lines.filter(|line| line.starts_with(b"tfd:")).take(left).count() as u64;
        if watched >= most {
            break;
        }
    }
    watched
}

/// How many files a process has open; 0 where the kernel does not tell (before 6.2).
fn open_files(pid: i32) -> u64 {
    fs::metadata(format!("/proc/{pid}/fd")).map_or(0, |folder| folder.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMPLE: ResourceLimits = ResourceLimits {
        memory_bytes: u64::MAX,
        processes: u64::MAX,
        cpu_seconds: u64::MAX,
        file_bytes: u64::MAX,
        disk_bytes: u64::MAX,
        open_files: u64::MAX,
    };

    fn task(pid: i32, parent: i32, started: u64) -> Task {
        Task { pid, parent, started, threads: 2, ticks: 150, pages: 1 }
    }

    #[test]
    fn a_line_is_read_behind_whatever_name_the_program_has() {
        let line =
            b"42 (a) b (c) S 7 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 123456 1000 200 18446744073709551615 1";
        let expected = Task { pid: 42, parent: 7, started: 123_456, threads: 3, ticks: 5 + 6 + 7 + 8, pages: 200 };
        assert_eq!(Task::parse(42, line), Some(expected));
        assert_eq!(Task::parse(42, b"42 (a) S 1"), None);
    }

    #[test]
    fn only_what_is_below_the_shim_counts_and_the_shim_for_its_dead_children_alone() {
        // 8 has the pid of a former parent of 9; 20 belongs to another run.
        let tasks = [task(5, 1, 10), task(6, 5, 11), task(7, 6, 12), task(8, 7, 50), task(9, 8, 40), task(20, 1, 1)];
        let tasks = Tasks::of(tasks.into_iter());
        let seen = |limits| tasks.exceeded(5, 0, &limits).map(|exceeded| (exceeded.resource, exceeded.seen));
        assert_eq!(seen(AMPLE), None);
        assert_eq!(seen(ResourceLimits { processes: 6, ..AMPLE }), None);
        assert_eq!(seen(ResourceLimits { processes: 5, ..AMPLE }), Some((Resource::Processes, 6)));
        let confined = tasks.exceeded(5, 1, &ResourceLimits { processes: 5, ..AMPLE });
        assert_eq!(confined, None, "the first process of a sandbox is not the run's");
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(seen(ResourceLimits { cpu_seconds: 0, ..AMPLE }), Some((Resource::Cpu, 600 / ticks)));
        assert_eq!(tasks.exceeded(77, 0, &ResourceLimits { processes: 0, ..AMPLE }), None, "no such shim");
    }

    #[test]
    fn memory_that_processes_share_is_counted_once() {
        let own = i32::try_from(std::process::id()).unwrap();
        let used = proportional(&task(own, 1, 1));
        assert!(used > 0);
        // The sum over two sights of this process is far above what it uses; it is not taken for it.
        let twice = [task(own, 1, 1), task(own, 1, 1)];
        let limit = |memory_bytes| ResourceLimits { memory_bytes, ..AMPLE };
        assert!(confirmed(&twice, &limit(used / 2)));
        assert!(!confirmed(&twice, &limit(used.saturating_mul(4))));
    }

    #[test]
    fn open_files_are_counted() {
        let own = i32::try_from(std::process::id()).unwrap();
        let before = open_files(own);
        let _more: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let told = open_files(own);
        // An older kernel tells nothing.
        assert!(told == 0 || told > 50, "{before} {told}");
    }

    #[test]
    fn places_in_sets_of_epoll_are_counted() {
        use rustix::event::{EventfdFlags, epoll, eventfd};
        let own = i32::try_from(std::process::id()).unwrap();
        let files: Vec<_> = (0..100).map(|_| eventfd(0, EventfdFlags::empty()).unwrap()).collect();
        let sets: Vec<_> = (0..50).map(|_| epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()).collect();
        for (set, file) in sets.iter().flat_map(|set| files.iter().map(move |file| (set, file))) {
            epoll::add(set, file, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
        }
        // Other tests may have some, too.
        assert!(watched_by(own, 200, 1_000_000) >= 5000);
        assert_eq!(watched_by(own, 200, 500), 500, "no more are counted than matter");
        let open = [(own, 200)];
        let seen = |open_files| {
            let exceeded = too_many_watched(&open, &ResourceLimits { open_files, ..AMPLE });
            exceeded.map(|exceeded| exceeded.resource)
        };
        assert_eq!((seen(64), seen(5000), seen(10_001)), (Some(Resource::OpenFiles), Some(Resource::OpenFiles), None));
    }
}
