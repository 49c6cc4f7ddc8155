//! Tells when a file is written to, whoever writes.
//!
//! All files of the process share one inotify instance: a user may have few of them (128 by default), and many watches. Where
//! there is none to be had, files are looked at again and again.

use std::collections::HashMap;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::sync::Notify;
use tracing::warn;

/// How often a file is looked at that cannot be watched.
const LOOK_EVERY: Duration = Duration::from_millis(10);

static INSTANCE: LazyLock<Option<Arc<Instance>>> = LazyLock::new(Instance::start);

struct Instance {
    inotify: OwnedFd,
    /// Who waits, by the number of the watch; numbers are not used twice.
    waiting: Mutex<HashMap<i32, Arc<Notify>>>,
}

impl Instance {
    fn start() -> Option<Arc<Instance>> {
        let started = inotify::init(CreateFlags::CLOEXEC).map_err(std::io::Error::from).and_then(|inotify| {
            let instance = Arc::new(Instance { inotify, waiting: Mutex::default() });
            let reader = instance.clone();
            thread::Builder::new().name("file-changes".to_owned()).spawn(move || reader.tell())?;
            Ok(instance)
        });
        match started {
            Ok(instance) => Some(instance),
            Err(error) => {
                warn!(%error, "files cannot be watched; they are looked at every 10 ms");
                None
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<i32, Arc<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everybody of changes, for ever.
    fn tell(&self) {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&self.inotify, &mut space);
        loop {
            match events.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    self.waiting().values().for_each(|waiting| waiting.notify_one());
                }
                Ok(event) => {
                    if let Some(waiting) = self.waiting().get(&event.wd()) {
                        waiting.notify_one();
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                // It cannot end while it is open; if it does, nobody may be left waiting.
                Err(_) => {
                    self.waiting().values().for_each(|waiting| waiting.notify_one());
                    thread::sleep(LOOK_EVERY);
                }
            }
        }
    }
}

/// The changes of one file.
pub(crate) struct Changes {
    changed: Arc<Notify>,
    /// `None` where it cannot be watched.
    watch: Option<(Arc<Instance>, i32)>,
}

impl Changes {
    /// From now on; there must be one at most for a file.
    pub(crate) fn of(file: &File) -> Changes {
        let changed = Arc::new(Notify::new());
        let watch = INSTANCE.clone().and_then(|instance| {
            // The file may have no name, but its descriptor has one.
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            // Locked before, so that no change is told that nobody is known to wait for.
            let mut waiting = instance.waiting();
            let number = inotify::add_watch(&instance.inotify, path, WatchFlags::MODIFY).ok()?;
            waiting.insert(number, changed.clone());
            drop(waiting);
            Some((instance, number))
        });
        Changes { changed, watch }
    }

    /// Waits until the file has changed since the last call. Cancel-safe.
    pub(crate) async fn next(&self) {
        match self.watch {
            Some(_) => self.changed.notified().await,
            None => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if let Some((instance, number)) = &self.watch {
            instance.waiting().remove(number);
            let _ = inotify::remove_watch(&instance.inotify, *number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn every_write_to_a_file_without_a_name_is_told_and_one_that_cannot_be_watched_is_looked_at() {
        let file = tempfile::tempfile().unwrap();
        let changes = Changes::of(&file);
        assert!(changes.watch.is_some());
        for _ in 0..3 {
            (&file).write_all(b"x").unwrap();
            changes.next().await;
        }
        drop(changes);
        let unwatched = Changes { changed: Arc::default(), watch: None };
        unwatched.next().await;
    }
}
