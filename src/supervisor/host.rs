//! Who starts engines: this machine, or somebody who only plays them.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;

use super::process::Process;
use super::spawn::{Error, Spec, spawn};
use super::sweep::{Swept, sweep};

/// An engine that is being started.
pub type Starting<'a> = Pin<Box<dyn Future<Output = Result<Process, Error>> + Send + 'a>>;

/// Starts engines and ends those of an earlier life.
pub trait Host: Send + Sync {
    /// Starts an engine; see [`spawn`].
    fn spawn<'a>(&'a self, spec: Spec<'a>) -> Starting<'a>;

    /// Ends what a dead service of this data folder has left running; see [`sweep`]. Blocks.
    fn sweep(&self, data_dir: &Path) -> io::Result<Vec<Swept>>;
}

/// Real processes.
#[derive(Debug, Clone, Copy)]
pub struct ThisMachine;

impl Host for ThisMachine {
    fn spawn<'a>(&'a self, spec: Spec<'a>) -> Starting<'a> {
        Box::pin(spawn(spec))
    }

    fn sweep(&self, data_dir: &Path) -> io::Result<Vec<Swept>> {
        sweep(data_dir)
    }
}
