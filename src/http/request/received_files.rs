//! The files of one body, in a folder of their own that is removed on threads for blocking work.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::http::answer::problem::Problem;
use crate::http::state::task::blocking;
use crate::orchestrator::Error;

/// So many files are removed at once, whatever else is being removed.
const FEW: u64 = 100;

/// Folders with more files wait for each other: many clients can break off at the same moment.
static MANY: Semaphore = Semaphore::const_new(2);

/// They are removed when this is dropped, wherever that is: nobody waits for it.
#[derive(Default)]
pub(crate) struct ReceivedFiles {
    /// Made with the first file.
    folder: Option<Arc<TempDir>>,
    files: u64,
}

impl ReceivedFiles {
    /// Another file, which is empty. The folder above is emptied by each start, so that nothing stays if this process dies.
    pub(crate) async fn create(&mut self, above: PathBuf) -> Result<(PathBuf, File), Problem> {
        let (folder, name) = (self.folder.clone(), self.files.to_string());
        let make = move || {
            let made = folder.map_or_else(|| made_in(&above).map(Arc::new), Ok);
            let made = made.and_then(|folder| {
                let path = folder.path().join(name);
                File::create_new(&path).map(|file| (folder, path, file))
            });
            made.map_err(Error::io(format!("create a file in {}", above.display())))
        };
        let (folder, path, file) = blocking(make).await?;
        self.folder = Some(folder);
        self.files += 1;
        Ok((path, file))
    }

    /// Removes them now. It goes on if nobody waits for it any more.
    pub(crate) async fn remove(mut self) {
        if let Some(removal) = self.begin_removal() {
            // What cannot be removed is removed by the next start.
            let _ = removal.await;
        }
    }

    fn begin_removal(&mut self) -> Option<JoinHandle<()>> {
        let (folder, files) = (self.folder.take()?, self.files);
        // Without a runtime nobody else waits for this thread.
        let runtime = Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            // The semaphore is never closed.
            let _turn = if files > FEW { MANY.acquire().await.ok() } else { None };
            let _ = spawn_blocking(move || drop(folder)).await;
        }))
    }
}

impl Drop for ReceivedFiles {
    fn drop(&mut self) {
        self.begin_removal();
    }
}

fn made_in(above: &Path) -> std::io::Result<TempDir> {
    std::fs::create_dir_all(above)?;
    tempfile::Builder::new().prefix("upload-").tempdir_in(above)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    async fn received(above: &Path, files: u64) -> ReceivedFiles {
        let mut received = ReceivedFiles::default();
        for _ in 0..files {
            received.create(above.to_path_buf()).await.unwrap();
        }
        received
    }

    fn left(above: &Path) -> usize {
        let folders = std::fs::read_dir(above).unwrap();
        folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).map_or(0, Iterator::count)).sum()
    }

    async fn until_left(above: &Path, files: usize) {
        let limit = Instant::now() + Duration::from_secs(60);
        while left(above) != files {
            assert!(Instant::now() < limit, "{} files are left", left(above));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn many_files_that_nobody_wants_any_more_are_removed_by_few_other_threads() {
        let above = tempfile::tempdir().unwrap();
        let many = received(above.path(), 300).await;
        let few = received(above.path(), 3).await;
        let busy = MANY.acquire_many(2).await.unwrap();
        drop(many);
        drop(few);
        assert_eq!(left(above.path()), 303, "whoever drops them does not remove them");
        until_left(above.path(), 300).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(left(above.path()), 300, "many wait for their turn");
        drop(busy);
        until_left(above.path(), 0).await;
    }

    #[tokio::test]
    async fn whoever_waits_for_the_removal_finds_nothing_left() {
        let above = tempfile::tempdir().unwrap();
        received(above.path(), 3).await.remove().await;
        assert_eq!(std::fs::read_dir(above.path()).unwrap().count(), 0);
    }
}
