//! Starts engines: as real processes, or as a simulation for tests.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;

use super::control_group::ControlGroups;
use super::process::Process;
use super::spawn::{Error, Spec, spawn};
use super::sweep::{Swept, sweep};

/// An engine that is being started.
pub type Spawning<'a> = Pin<Box<dyn Future<Output = Result<Process, Error>> + Send + 'a>>;

/// Starts engines, and ends those that a dead service left behind.
pub trait Spawner: Send + Sync {
    /// Starts an engine; see [`spawn`].
    fn spawn<'a>(&'a self, spec: Spec<'a>) -> Spawning<'a>;

    /// Ends what a dead service of this data folder has left running; see [`sweep`]. Blocks.
    fn sweep(&self, data_dir: &Path) -> io::Result<Vec<Swept>>;
}

#[derive(Debug, Clone)]
pub(crate) struct ProcessSpawner {
    pub(crate) groups: ControlGroups,
}

impl Spawner for ProcessSpawner {
    fn spawn<'a>(&'a self, spec: Spec<'a>) -> Spawning<'a> {
        Box::pin(spawn(spec, &self.groups))
    }

    fn sweep(&self, data_dir: &Path) -> io::Result<Vec<Swept>> {
        let swept = sweep(data_dir);
        self.groups.sweep();
        swept
    }
}
