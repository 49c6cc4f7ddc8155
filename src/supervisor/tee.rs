//! Reads one pipe to its end: every byte goes to the log file first, then to the owner.

use std::os::fd::AsFd;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

use super::log::{Appended, Log};
use super::process::{Output, Stream, StreamTotals};

/// A pipe is read in pieces of this size: what Linux gives it by default, so one read can empty it.
const PIECE: usize = 64 * 1024;

/// One stream of one engine.
pub(super) struct Tee {
    pub(super) stream: Stream,
    pub(super) pipe: pipe::Receiver,
    pub(super) log: Log,
    pub(super) outputs: mpsc::Sender<Output>,
    /// Bytes that may still come before the owner is told that the limit is passed.
    pub(super) until_limit: Option<u64>,
    /// Becomes true when no process of the run is left.
    pub(super) tree_gone: watch::Receiver<bool>,
    /// Dropped when the pipe is at its end.
    pub(super) still_open: mpsc::Sender<()>,
}

impl Tee {
    /// Runs until the pipe ends, or until the run's processes are gone and what they wrote is read.
    pub(super) async fn run(mut self) -> StreamTotals {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(PIECE);
            tokio::select! {
                read = self.pipe.read_buf(&mut buffer) => match read {
                    Ok(0) | Err(_) => break,
                    Ok(_) => self.take(buffer.split()).await,
                },
                () = told(&mut self.tree_gone) => {
                    self.drain(buffer).await;
                    break;
                }
            }
        }
        drop(self.still_open);
        self.log.totals()
    }

    /// Reads exactly what is in the pipe now. Its end may never come: the engine can have handed the pipe to a
    /// process that is not of this run.
    async fn drain(&mut self, mut buffer: BytesMut) {
        let mut left = rustix::io::ioctl_fionread(self.pipe.as_fd()).unwrap_or(0);
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            buffer.resize(wanted, 0);
            // Not through tokio, whose idea of readiness may lag behind the pipe.
            match rustix::io::read(self.pipe.as_fd(), &mut buffer[..]) {
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    left = left.saturating_sub(n as u64);
                    let piece = buffer.split_to(n);
                    self.take(piece).await;
                }
            }
        }
    }

    async fn take(&mut self, bytes: BytesMut) {
        let bytes = bytes.freeze();
        // Straight from the runtime's thread, in bounded pieces: a hop to another thread for each costs more than
        // the write (measured: 490 MB/s so, 280 MB/s with the hop).
        let Appended { from, kept, error } = self.log.append(&bytes);
        if kept > 0 {
            self.say(Output::Chunk { stream: self.stream, from, bytes: bytes.slice(..kept) }).await;
        }
        if let Some(error) = error {
            self.say(Output::LogFailed { stream: self.stream, error }).await;
        }
        self.count(bytes.len() as u64).await;
    }

    async fn count(&mut self, bytes: u64) {
        let Some(left) = self.until_limit else { return };
        self.until_limit = left.checked_sub(bytes);
        if self.until_limit.is_none() {
            self.say(Output::StdoutLimitExceeded).await;
        }
    }

    async fn say(&self, output: Output) {
        // An owner that is gone hears nothing; its absence has the tree killed, which ends this stream too.
        let _ = self.outputs.send(output).await;
    }
}

async fn told(tree_gone: &mut watch::Receiver<bool>) {
    // An error means that nobody can tell any more, which comes to the same.
    let _ = tree_gone.wait_for(|gone| *gone).await;
}
