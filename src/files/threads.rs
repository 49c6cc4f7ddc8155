//! Whether threads can be started, asked before somebody is called who would wait for them for ever.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;

use super::shortage::not_started;

/// Whether so many threads can be started now: as many are there together, and end.
pub(crate) fn can_start_threads(count: usize) -> io::Result<()> {
    let end = Arc::new(Mutex::new(()));
    let held = end.lock();
    let mut started = Vec::with_capacity(count);
    for _ in 0..count {
        let end = end.clone();
        let waits = move || drop(end.lock());
        started.push(thread::Builder::new().spawn(waits).map_err(not_started)?);
    }
    drop(held);
    for thread in started {
        // It does nothing that could panic.
        let _ = thread.join();
    }
    Ok(())
}
