//! Files without a name that processes have open or mapped: they take room, and no folder shows them.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::disk_use::BLOCK;

/// File systems that are in memory: `tmpfs`, which also has the files of `memfd_create`, and huge pages.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x9584_58f6];

/// The bytes of such files, each counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) on_disk: u64,
    pub(crate) in_memory: u64,
}

/// Looks at the files of these processes. Those that are only mapped are told to root alone.
pub(crate) fn held(pids: &[i32]) -> Held {
    let (mut held, mut known) = (Held::default(), HashSet::new());
    for place in pids.iter().flat_map(|pid| open(*pid).chain(mapped(*pid))) {
        // The process may have closed it, or be gone.
        let Ok(found) = fs::metadata(&place) else { continue };
        if !found.is_file() || found.nlink() > 0 || !known.insert((found.dev(), found.ino())) {
            continue;
        }
        let bytes = found.blocks().saturating_mul(BLOCK);
        let in_memory = rustix::fs::statfs(&place).is_ok_and(|system| IN_MEMORY.contains(&system.f_type));
        let sum = if in_memory { &mut held.in_memory } else { &mut held.on_disk };
        *sum = sum.saturating_add(bytes);
    }
    held
}

fn open(pid: i32) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

fn mapped(pid: i32) -> impl Iterator<Item = PathBuf> {
    let told = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let told = String::from_utf8_lossy(&told).into_owned();
    let ranges: Vec<String> = told.lines().filter(|line| line.ends_with(" (deleted)")).filter_map(range).collect();
    ranges.into_iter().map(move |range| format!("/proc/{pid}/map_files/{range}").into())
}

/// The addresses of a mapping, as its file is named.
fn range(line: &str) -> Option<String> {
    let (begin, end) = line.split(' ').next()?.split_once('-')?;
    let short = |number: &str| number.trim_start_matches('0').to_owned();
    Some(format!("{}-{}", short(begin), short(end)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn files_without_a_name_are_counted_once_where_they_are() {
        let own = i32::try_from(std::process::id()).unwrap();
        let before = held(&[own]);
        let mut unnamed = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        unnamed.write_all(&[1; 3 << 20]).unwrap();
        unnamed.sync_all().unwrap();
        let _again = unnamed.try_clone().unwrap();
        let memory = rustix::fs::memfd_create("held", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        fs::File::from(memory.try_clone().unwrap()).write_all(&[1; 5 << 20]).unwrap();
        let after = held(&[own]);
        // Other tests of this process may hold some, too.
        assert!((3 << 20..6 << 20).contains(&(after.on_disk - before.on_disk)), "{before:?} {after:?}");
        assert!((5 << 20..10 << 20).contains(&(after.in_memory - before.in_memory)), "{before:?} {after:?}");
    }

    #[test]
    fn a_mapping_is_named_without_leading_zeros() {
        let line = "00400000-00452000 r-xp 00000000 08:02 173521 /tmp/x (deleted)";
        assert_eq!(range(line).as_deref(), Some("400000-452000"));
        assert_eq!(range(""), None);
    }
}
