//! How much disk space folders take, as far as it matters whether that is too much.

use std::ffi::OsString;
use std::fs::{File, ReadDir};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::domain::resources::{Exceeded, Resource, ResourceLimits};
use crate::files;

/// The unit of the blocks that the kernel tells.
pub(super) const BLOCK: u64 = 512;

/// The longest way, in bytes, to a folder from where it is named: the kernel takes 4096 bytes, with the name in it and what is in front.
const WAY_MAX: usize = 2000;
/// So many folders are open at most, one in each so many bytes of a path.
const OPEN_MAX: usize = 200;

/// A folder that is to be looked into.
struct Place {
    base: Rc<Base>,
    /// The way to it from there.
    way: PathBuf,
}

/// A folder from which others are named, by its path or by a handle on it.
struct Base {
    path: PathBuf,
    _handle: Option<File>,
    /// How many are open, with those above it.
    open: usize,
}

impl Place {
    fn new(folder: &Path) -> Place {
        Place::at(Base { path: folder.to_owned(), _handle: None, open: 0 })
    }

    fn at(base: Base) -> Place {
        Place { base: Rc::new(base), way: PathBuf::new() }
    }

    fn path(&self) -> PathBuf {
        self.base.path.join(&self.way)
    }

    /// The same folder, named by a short way.
    fn nearer(self) -> io::Result<Place> {
        if self.way.as_os_str().len() <= WAY_MAX {
            return Ok(self);
        }
        let handle = files::folder_beneath(&self.base.path, &self.way)?;
        let path = format!("/proc/self/fd/{}", handle.as_raw_fd()).into();
        Ok(Place::at(Base { path, _handle: Some(handle), open: self.base.open + 1 }))
    }

    fn entries(&self) -> io::Result<ReadDir> {
        files::list_beneath(&self.base.path, &self.way)
    }

    fn below(&self, name: OsString) -> Place {
        Place { base: self.base.clone(), way: self.way.join(name) }
    }
}

/// What of the limits these folders have met, with so many bytes of files that are in none. It looks no further than that; what cannot be read does not count, and no link
/// is followed. Folders nested deeper than anybody needs, by half a million bytes of their names, count as too much.
pub(crate) fn exceeded(folders: &[PathBuf], unnamed: u64, limits: &ResourceLimits) -> Option<Exceeded> {
    let (mut bytes, mut files) = (unnamed, 0_u64);
    if let Some(too_much) = limits.disk_exceeded(bytes, files) {
        return Some(too_much);
    }
    // The last one is the next: so no more folders are open than one path leads through.
    let mut waiting: Vec<Place> = folders.iter().map(|folder| Place::new(folder)).collect();
    while let Some(place) = waiting.pop() {
        let Ok(place) = place.nearer() else { continue };
        if place.base.open > OPEN_MAX {
            return Some(Exceeded { files: Some(files), ..limits.met(Resource::Disk) });
        }
        let folder = place.path();
        let Ok(entries) = opened(&folder, || place.entries()) else { continue };
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
                waiting.push(place.below(entry.file_name()));
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
    use std::fs;

    use rustix::fs::{Mode, OFlags};

    use super::*;

    /// Folders in folders, with a file of 100 000 bytes in the last one.
    fn nest(folder: &Path, name: &str, depth: usize) {
        fs::create_dir(folder).unwrap();
        let mut at = File::open(folder).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&at, name, Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap().into();
        }
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let file = File::from(rustix::fs::openat(&at, "file", flags, Mode::RUSR | Mode::WUSR).unwrap());
        io::Write::write_all(&mut { file }, &[1; 100_000]).unwrap();
    }

    #[test]
    fn what_is_in_folders_below_paths_of_any_length_counts() {
        let place = tempfile::tempdir().unwrap();
        let ample = u64::MAX;
        let (memory_bytes, processes, cpu_seconds, open_files) = (ample, ample, ample, ample);
        let limits = |disk_bytes, file_bytes| ResourceLimits {
            memory_bytes,
            processes,
            cpu_seconds,
            file_bytes,
            disk_bytes,
            open_files,
        };
        let (long, too_long) = ("x".repeat(250), "x".repeat(255));
        for (name, depth) in [(long.as_str(), 20), ("x", 5000), (too_long.as_str(), 3000)] {
            let tree = place.path().join("tree");
            nest(&tree, name, depth);
            let folders = [tree.clone()];
            let is_too_deep = name == too_long;
            let met = exceeded(&folders, 0, &limits(1 << 40, 1 << 30)).map(|exceeded| exceeded.resource);
            assert_eq!(met, is_too_deep.then_some(Resource::Disk), "{depth}");
            let met = exceeded(&folders, 0, &limits(1 << 40, 100_000)).map(|exceeded| exceeded.resource);
            assert_eq!(met, Some(if is_too_deep { Resource::Disk } else { Resource::File }), "{depth}");
            files::remove_tree(&tree).unwrap();
        }
    }

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
