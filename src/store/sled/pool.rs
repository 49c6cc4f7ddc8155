//! The threads of sled's own, which write what was flushed. It starts them with the first write, once, and goes on without any
//! if none can be started: then no write ever ends. So they are started before there is anything to write.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::database::unavailable;
use crate::files;
use crate::store::Error;

/// As many as sled starts at first.
const THREADS: usize = 7;
/// Far longer than a flush of nothing takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether sled can start its threads now.
pub(super) fn can_start() -> io::Result<()> {
    files::can_start_threads(THREADS)
}

/// Lets sled start its threads, and waits until one of them has done something.
pub(super) fn start(db: &sled::Db, store_dir: &Path) -> Result<(), Error> {
    let (woken, wakes) = channel();
    let waker = Waker::from(Arc::new(Woken(woken)));
    let mut flushed = pin!(db.flush_async());
    let deadline = Instant::now() + PATIENCE;
    loop {
        match flushed.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done.map(|_| ()).map_err(unavailable),
            Poll::Pending => {
                let left = deadline.saturating_duration_since(Instant::now());
                let late = |_| Error::io("start the threads of sled for", store_dir)(io::ErrorKind::TimedOut.into());
                wakes.recv_timeout(left).map_err(late)?;
            }
        }
    }
}

struct Woken(Sender<()>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        // Whoever waited has given up.
        let _ = self.0.send(());
    }
}
