//! Keeps one stream: every byte goes to the log file first, then to the owner.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::log::{Appended, Log};
use super::process::{Output, Stream, StreamTotals};

/// One stream of one engine, on its way to file and owner.
pub(super) struct Recorder {
    pub(super) stream: Stream,
    pub(super) log: Log,
    pub(super) outputs: mpsc::Sender<Output>,
    /// Bytes that may still come before the owner is told that the limit is passed.
    pub(super) until_limit: Option<u64>,
}

impl Recorder {
    pub(super) async fn take(&mut self, bytes: Bytes) {
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

    pub(super) fn totals(self) -> StreamTotals {
        self.log.totals()
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
