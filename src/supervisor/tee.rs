//! Reads one pipe to its end.

use std::os::fd::AsFd;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

use super::output::StreamTotals;
use super::recorder::Recorder;

/// A pipe is read in pieces of this size: what Linux gives it by default, so one read can empty it.
pub(crate) const PIECE: usize = 64 * 1024;

/// One stream of one engine.
pub(crate) struct Tee {
    pub(crate) pipe: pipe::Receiver,
    pub(crate) recorder: Recorder,
    /// Becomes true when no process of the run is left.
    pub(crate) tree_gone: watch::Receiver<bool>,
    /// Dropped when the pipe is at its end.
    pub(crate) still_open: mpsc::Sender<()>,
}

impl Tee {
    /// Runs until the pipe ends, or until the run's processes are gone and what they wrote is read.
    pub(crate) async fn run(mut self) -> StreamTotals {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(PIECE);
            tokio::select! {
                read = self.pipe.read_buf(&mut buffer) => match read {
                    Ok(0) | Err(_) => break,
                    Ok(_) => self.recorder.record(buffer.split().freeze()).await,
                },
                () = becomes_true(&mut self.tree_gone) => {
                    self.drain(buffer).await;
                    break;
                }
            }
        }
        drop(self.still_open);
        self.recorder.finish().await
    }

    /// Reads exactly what is in the pipe now. Its end may never come: the engine can have handed the pipe to a
    /// process that is not of this run.
    async fn drain(&mut self, mut buffer: BytesMut) {
        let mut left = rustix::io::ioctl_fionread(self.pipe.as_fd()).unwrap_or(0);
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            buffer.resize(wanted, 0);
            // Not through tokio, which may not know yet that the pipe is readable.
            match rustix::io::read(self.pipe.as_fd(), &mut buffer[..]) {
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    left = left.saturating_sub(n as u64);
                    self.recorder.record(buffer.split_to(n).freeze()).await;
                }
            }
        }
    }
}

pub(crate) async fn becomes_true(tree_gone: &mut watch::Receiver<bool>) {
    // An error means that the watcher is gone, and so is the tree.
    let _ = tree_gone.wait_for(|gone| *gone).await;
}
