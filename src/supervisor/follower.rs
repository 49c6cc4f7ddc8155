//! Follows a file that an engine writes a stream to, until no process of the run is left.

use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::changes::Changes;
use super::output::StreamTotals;
use super::recorder::Recorder;
use super::spool::{Look, Spool};
use super::tee::{PIECE, becomes_true};

/// How often space is given back while the owner does not take what was read.
const FREE_EVERY: Duration = Duration::from_millis(100);

/// One stream of one engine.
pub(crate) struct Follower {
    pub(crate) spool: Spool,
    pub(crate) recorder: Recorder,
    /// Becomes true when no process of the run is left.
    pub(crate) tree_gone: watch::Receiver<bool>,
    /// Dropped at the end: as long as there are processes, more may come.
    pub(crate) still_open: mpsc::Sender<()>,
}

impl Follower {
    /// Runs until the run's processes are gone and what they wrote is read.
    pub(crate) async fn run(mut self) -> StreamTotals {
        let changes = Changes::of(self.spool.file());
        self.spool.want(self.recorder.free());
        loop {
            let last = *self.tree_gone.borrow();
            if let Err(error) = self.take().await {
                self.recorder.fail(error).await;
                break;
            }
            if last {
                break;
            }
            tokio::select! {
                () = changes.next() => {}
                () = becomes_true(&mut self.tree_gone) => {}
            }
        }
        drop(self.still_open);
        self.recorder.finish().await
    }

    /// Takes everything that is there.
    async fn take(&mut self) -> std::io::Result<()> {
        let mut buffer = BytesMut::new();
        loop {
            let there = match self.spool.look()? {
                Look::New(0) => return Ok(()),
                Look::New(there) => there,
                Look::Rewritten => {
                    self.spool.want(self.recorder.free());
                    self.recorder.tell_rewritten().await;
                    continue;
                }
            };
            if self.recorder.free() == 0 {
                self.spool.pass_over(there);
                self.recorder.pass_over(there).await;
                self.spool.free_read()?;
                continue;
            }
            buffer.resize(PIECE, 0);
            let read = self.spool.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            self.record(buffer.split_to(read)).await;
            // Where this cannot be done, everything that is kept takes its space twice.
            let _ = self.spool.free_read();
        }
    }

    /// Records a piece. The owner may take its time, while the engine writes on: the file must not take all space meanwhile.
    async fn record(&mut self, piece: BytesMut) {
        let mut recorded = pin!(self.recorder.record(piece.freeze()));
        loop {
            tokio::select! {
                biased;
                () = &mut recorded => return,
                () = sleep(FREE_EVERY) => {
                    // If the file system cannot do it, that is told when the limit is reached.
                    let _ = self.spool.free_unwanted();
                }
            }
        }
    }
}
