//! The real program, serving a folder, and what the system knows of its process.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::Client;

pub struct Service {
    child: Child,
    pub address: String,
    pub folder: PathBuf,
    /// From the start of the process until it said where it listens.
    pub started_in: Duration,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    /// Serves the folders `data` and `skills` of this folder.
    pub fn start(program: &Path, folder: &Path, settings: &[(&str, &str)]) -> Service {
        let began = Instant::now();
        let variables = settings.iter().map(|(key, value)| (format!("SKILL_RUNNER_{}", key.to_uppercase()), value));
        let mut child = Command::new(program)
            .args(["serve", "--port", "0", "--data-dir", "data", "--skills-dir", "skills"])
            .envs(variables)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        while !line.contains("http://") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the service ended");
        }
        let started_in = began.elapsed();
        let address = line.split("http://").nth(1).unwrap().trim().trim_end_matches('/').to_owned();
        Service { child, address, folder: folder.to_owned(), started_in }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.address)
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A file in which the system tells of the process.
    pub fn proc(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid()))
    }

    /// A figure of the process's memory in MB, such as `VmRSS` or `VmHWM`.
    pub fn memory(&self, name: &str) -> f64 {
        self.status(name) / 1e3
    }

    /// A figure of the process's status, in the unit the system gives it.
    pub fn status(&self, name: &str) -> f64 {
        let status = fs::read_to_string(self.proc("status")).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Takes SIGTERM to end; the process is gone afterwards.
    pub fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

/// What a folder takes on the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub inodes: u64,
    pub bytes: u64,
}

/// Files with several links count once; what vanishes meanwhile counts for nothing.
pub fn usage(folder: &Path) -> Usage {
    usage_of(&[folder.to_owned()])
}

/// Where a data folder keeps the files of runs: their own, and what they share.
const OF_RUNS: [&str; 4] = ["runs", "results", "sealed", "skill-copies"];

/// What the files of all runs take.
pub fn run_files(data: &Path) -> Usage {
    usage_of(&OF_RUNS.map(|folder| data.join(folder)))
}

fn usage_of(folders: &[PathBuf]) -> Usage {
    fn add(path: &Path, seen: &mut HashSet<u64>, sum: &mut Usage) {
        let Ok(meta) = fs::symlink_metadata(path) else { return };
        if seen.insert(meta.ino()) {
            sum.inodes += 1;
            sum.bytes += meta.blocks() * 512;
        }
        if meta.is_dir() {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.for_each(|entry| add(&entry.path(), seen, sum));
        }
    }
    let mut sum = Usage::default();
    let mut seen = HashSet::new();
    folders.iter().for_each(|folder| add(folder, &mut seen, &mut sum));
    sum
}

/// The event store and its index: everything in a data folder but the runs and the service's own log.
pub fn store_bytes(data: &Path) -> u64 {
    let entries = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let others = entries.filter(|path| !path.ends_with("logs") && !OF_RUNS.iter().any(|folder| path.ends_with(folder)));
    others.map(|path| usage(&path).bytes).sum()
}
