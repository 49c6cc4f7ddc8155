//! Wakes the compactor.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Tells the compactor that there may be something to do.
#[derive(Clone)]
pub(super) struct Waker(SyncSender<()>);

pub(super) fn waker() -> (Waker, Receiver<()>) {
    // One call that waits is enough, however often it is repeated.
    let (sender, receiver) = sync_channel(1);
    (Waker(sender), receiver)
}

impl Waker {
    pub(super) fn wake(&self) {
        let _ = self.0.try_send(());
    }
}
