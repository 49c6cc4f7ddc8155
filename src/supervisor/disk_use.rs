//! How much disk space folders take, as far as it matters whether that is too much.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::domain::resources::{Exceeded, Resource, ResourceLimits};
use crate::files;

/// The unit of the blocks that the kernel tells.
pub(super) const BLOCK: u64 = 512;

/// What of the limits these folders have met, with so many bytes of files that are in none. It looks no further than that; what cannot be read does not count, and no link
/// is followed.
pub(crate) fn exceeded(folders: &[PathBuf], unnamed: u64, limits: &ResourceLimits) -> Option<Exceeded> {
    let (mut bytes, mut files) = (unnamed, 0_u64);
    if let Some(too_much) = limits.disk_exceeded(bytes, files) {
        return Some(too_much);
    }
    let mut waiting = folders.to_vec();
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = opened(&folder, || fs::read_dir(&folder)) else { continue };
        for entry in entries.flatten() {
            // It may be gone by now.
            let Ok(found) = opened(&folder, || entry.metadata()) else { continue };
            bytes = bytes.saturating_add(found.blocks().saturating_mul(BLOCK));
            files += 1;
            let too_much = match found.is_file() {
                true => limits.exceeded(Resource::File, found.len()),
                false => None,
            };
            let too_much = too_much.or_else(|| limits.disk_exceeded(bytes, files));
            if too_much.is_some() {
                return too_much;
            }
            if found.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    None
}

/// Looks into a folder. One that the run has closed to its own user is opened: what is in it counts.
fn opened<T>(folder: &Path, look: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match look() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            files::regain(folder)?;
            look()
        }
        seen => seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_files_and_the_largest_file_are_looked_at_in_every_folder_below() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/usr", folder.path().join("link")).unwrap();
        let folders = [folder.path().to_owned(), folder.path().join("not there")];
        let limits = |disk_bytes, file_bytes| {
            let ample = u64::MAX;
            let (memory_bytes, processes, cpu_seconds, open_files) = (ample, ample, ample, ample);
            ResourceLimits { memory_bytes, processes, cpu_seconds, file_bytes, disk_bytes, open_files }
        };
        assert_eq!(exceeded(&folders, 0, &limits(1 << 30, 100_001)), None);
        let large = Exceeded { resource: Resource::File, limit: 100_000, seen: 100_000, files: None };
        assert_eq!(exceeded(&folders, 0, &limits(1 << 30, 100_000)), Some(large));
        let full = exceeded(&folders, 0, &limits(90_000, 1 << 30)).unwrap();
        assert_eq!((full.resource, full.limit, full.seen >= 100_000), (Resource::Disk, 90_000, true));
        let unnamed = exceeded(&[], 90_001, &limits(90_000, 1 << 30)).unwrap();
        assert_eq!((unnamed.resource, unnamed.seen), (Resource::Disk, 90_001));
        // Room for six files and folders.
        let many = |files| (0..files).for_each(|n| fs::write(deep.join(format!("{n}")), "").unwrap());
        let limits = limits(6 * 16 * 1024 + 100_000, 1 << 30);
        many(2);
        assert_eq!(exceeded(&folders, 0, &limits), None);
        many(20);
        assert_eq!(exceeded(&folders, 0, &limits).and_then(|exceeded| exceeded.files), Some(13));
    }
}
