//! How much a folder takes on the disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Entries after which others have their turn.
const PAUSE_EVERY: u64 = 2000;
const PAUSE: Duration = Duration::from_millis(20);

/// The bytes of what is directly below a folder, each with all that is in it, by name. Slow on purpose: it never holds up those who
/// have work to do. What cannot be looked at, or goes meanwhile, is left out.
pub(crate) fn sizes_below(folder: &Path) -> Vec<(String, u64)> {
    let mut seen = 0;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut sizes: Vec<(String, u64)> = entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), size_of(entry.path(), &mut seen)))
        .collect();
    sizes.sort_unstable();
    sizes
}

/// The bytes that a file or folder takes on the disk.
pub(crate) fn tree_size(root: PathBuf) -> u64 {
    size_of(root, &mut 0)
}

fn size_of(root: PathBuf, seen: &mut u64) -> u64 {
    let mut bytes = 0;
    let mut left = vec![root];
    while let Some(path) = left.pop() {
        *seen += 1;
        if seen.is_multiple_of(PAUSE_EVERY) {
            std::thread::sleep(PAUSE);
        }
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        bytes += found.blocks() * 512;
        if found.is_dir() {
            left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_counts_for_the_first_folder_on_its_way() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/file"), vec![1; 100_000]).unwrap();
        fs::write(folder.path().join("c"), b"x").unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("link")).unwrap();
        let sizes = sizes_below(folder.path());
        let names: Vec<&str> = sizes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "c", "link"]);
        assert!((100_000..1_000_000).contains(&sizes[0].1), "{sizes:?}");
        assert!(sizes[1].1 < 100_000 && sizes[2].1 < 100_000, "{sizes:?}");
    }
}
