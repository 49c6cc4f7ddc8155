//! Watches what running engines use, and tells those whose engine uses too much.
//!
//! Two threads serve all runs, one for processes and one for disk space. Each looks again after a pause that is many times as
//! long as its last look took, so that watching costs a small part of one processor however much there is to see. They sleep
//! while no engine runs, and a short run is over before the first look.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tokio::sync::watch;
use tracing::warn;

use super::control_group::Group;
use super::disk_use;
use super::held_files::held;
use super::usage::Tasks;
use crate::domain::resources::{Exceeded, Resource, ResourceLimits};
use crate::engine::ProcessExit;

/// A pause is so many times as long as the look before it.
const PAUSE_PER_LOOK: u32 = 15;

/// Pauses between looks at processes.
const PROCESSES: Pauses = Pauses { least: Duration::from_millis(100), most: Duration::from_secs(1) };
/// Pauses between looks at disk space.
const DISK: Pauses = Pauses { least: Duration::from_millis(500), most: Duration::from_secs(30) };

struct Pauses {
    least: Duration,
    most: Duration,
}

impl Pauses {
    fn after(&self, look: Duration) -> Duration {
        (look * PAUSE_PER_LOOK).clamp(self.least, self.most)
    }
}

/// What a run may use, and where its files are.
#[derive(Debug, Clone, Copy)]
pub struct Resources<'a> {
    pub limits: ResourceLimits,
    /// Folders whose content counts as the run's, besides its temporary folder.
    pub folders: &'a [PathBuf],
}

/// An engine that is watched, until this is dropped.
#[derive(Debug)]
pub(crate) struct Guarded {
    watched: Arc<Watched>,
    seen: watch::Receiver<Option<Exceeded>>,
}

#[derive(Debug)]
struct Watched {
    id: u64,
    since: Instant,
    shim: i32,
    /// How many processes below the shim are the runner's own.
    own: u64,
    limits: ResourceLimits,
    folders: Vec<PathBuf>,
    /// The control group of its processes, where it has one.
    group: Option<Group>,
    exceeded: watch::Sender<Option<Exceeded>>,
}

impl Guarded {
    /// Waits until the engine uses too much; for ever if it does not.
    pub(crate) async fn exceeded(&mut self) {
        if self.seen.wait_for(Option::is_some).await.is_err() {
            std::future::pending().await
        }
    }

    /// Which limit the engine met, now that it has ended in this way. Blocks, if it did not end well.
    pub(crate) fn verdict(&self, exit: ProcessExit) -> Option<Exceeded> {
        if let Some(exceeded) = *self.seen.borrow() {
            return Some(exceeded);
        }
        let limits = &self.watched.limits;
        // The kernel has counted exactly, also what was over before anybody looked.
        if let Some(exceeded) = self.watched.group.as_ref().and_then(|group| group.exceeded(limits)) {
            return Some(exceeded);
        }
        match exit {
            // A shell tells the signal of its command so.
            ProcessExit::Signal(SIGXCPU) | ProcessExit::Code(152) => {
                limits.exceeded(Resource::Cpu, limits.cpu_seconds.saturating_add(1))
            }
            ProcessExit::Signal(SIGXFSZ) | ProcessExit::Code(153) => limits.exceeded(Resource::File, limits.file_bytes),
            ProcessExit::Code(0) | ProcessExit::Dismissed => None,
            // It may have been refused more: then its files are as large as they may be.
            ProcessExit::Code(_) | ProcessExit::Signal(_) | ProcessExit::Unknown => {
                disk_use::exceeded(&self.watched.folders, 0, limits)
            }
        }
    }
}

const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;

impl Drop for Guarded {
    fn drop(&mut self) {
        lock(&GUARD.get_or_init(Guard::default).watched).retain(|watched| watched.id != self.watched.id);
    }
}

/// Watches the engine below this shim, and in a sandbox below its first process.
pub(crate) fn guard(
    shim: Pid,
    confined: bool,
    resources: Resources<'_>,
    tmp_dir: PathBuf,
    group: Option<Group>,
) -> Guarded {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (exceeded, seen) = watch::channel(None);
    let watched = Arc::new(Watched {
        id: NEXT.fetch_add(1, Ordering::Relaxed),
        since: Instant::now(),
        shim: shim.as_raw_nonzero().get(),
        own: u64::from(confined),
        limits: resources.limits,
        folders: resources.folders.iter().cloned().chain([tmp_dir]).collect(),
        group,
        exceeded,
    });
    GUARD.get_or_init(Guard::default).add(watched.clone());
    Guarded { watched, seen }
}

static GUARD: OnceLock<Guard> = OnceLock::new();

#[derive(Debug, Default)]
struct Guard {
    watched: Mutex<Vec<Arc<Watched>>>,
    came: Condvar,
    threads: Mutex<Threads>,
}

/// Which threads are there.
#[derive(Debug, Default)]
struct Threads {
    processes: bool,
    disk: bool,
}

impl Guard {
    fn add(&'static self, new: Arc<Watched>) {
        let mut watched = lock(&self.watched);
        watched.push(new);
        // Threads that are in a pause look by themselves afterwards.
        if watched.len() == 1 {
            self.came.notify_all();
        }
        drop(watched);
        let look: fn(&[Arc<Watched>]) = look_at_processes;
        let mut threads = lock(&self.threads);
        self.start(&mut threads.processes, "run-processes", PROCESSES, look);
        self.start(&mut threads.disk, "run-disk", DISK, look_at_disk);
    }

    /// Starts a thread that looks at runs, unless it is there. Where it cannot be started, the next run tries it again.
    fn start(&'static self, there: &mut bool, name: &str, pauses: Pauses, look: fn(&[Arc<Watched>])) {
        if *there {
            return;
        }
        match thread::Builder::new().name(name.to_owned()).spawn(move || self.serve(&pauses, look)) {
            Ok(_) => *there = true,
            Err(error) => warn!(%error, thread = name, "the limits of runs are not watched until the next run begins"),
        }
    }

    fn serve(&self, pauses: &Pauses, look: fn(&[Arc<Watched>])) {
        let mut pause = pauses.least;
        loop {
            drop(self.came.wait_while(lock(&self.watched), |watched| watched.is_empty()));
            thread::sleep(pause);
            let began = Instant::now();
            // However many short runs come one after the other, nobody looks at them.
            let old = |watched: &&Arc<Watched>| began.duration_since(watched.since) >= pauses.least;
            let watched: Vec<Arc<Watched>> = lock(&self.watched).iter().filter(old).cloned().collect();
            if !watched.is_empty() {
                look(&watched);
            }
            pause = pauses.after(began.elapsed());
        }
    }
}

fn look_at_processes(watched: &[Arc<Watched>]) {
    let tasks = match Tasks::look() {
        Ok(tasks) => tasks,
        Err(error) => return warn!(%error, "the processes of runs cannot be seen"),
    };
    for one in watched {
        tell(one, one.group.as_ref().and_then(|group| group.exceeded(&one.limits)));
        tell(one, tasks.exceeded(one.shim, one.own, &one.limits));
    }
}

fn look_at_disk(watched: &[Arc<Watched>]) {
    let tasks = Tasks::look().unwrap_or_default();
    for one in watched {
        let held = held(&tasks.pids_below(one.shim));
        tell(one, one.limits.exceeded(Resource::Memory, held.in_memory));
        tell(one, disk_use::exceeded(&one.folders, held.on_disk, &one.limits));
    }
}

/// The first limit that is met counts.
fn tell(one: &Watched, exceeded: Option<Exceeded>) {
    if exceeded.is_some() {
        one.exceeded.send_if_modified(|known| known.is_none() && std::mem::replace(known, exceeded).is_none());
    }
}

/// Nothing can panic while it holds the lock.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
