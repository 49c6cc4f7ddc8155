//! Files without a name that processes have open or mapped: they take room, and no folder shows them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Take};
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::disk_use::BLOCK;

/// File systems that are in memory: `tmpfs`, which also has the files of `memfd_create`, and huge pages.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x9584_58f6];

/// What is read of a process's list of mappings in one look. It holds their paths, which may be long.
const MAPS_MAX: u64 = 16 << 20;
/// What is kept of a line of it: the addresses are in front.
const LINE_BEGINNING: usize = 128;
/// How a line ends whose file has no name.
const UNNAMED: &[u8] = b" (deleted)";

/// The bytes of such files, each counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) on_disk: u64,
    pub(crate) in_memory: u64,
}

/// Looks at the files of these processes. Those that are only mapped are told to root alone.
pub(crate) fn held(pids: &[i32]) -> Held {
    let (mut held, mut known) = (Held::default(), HashSet::new());
    for place in pids.iter().flat_map(|pid| open(*pid).chain(mapped(*pid, MAPS_MAX))) {
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

/// So many bytes of the process's list are read.
fn mapped(pid: i32, most: u64) -> impl Iterator<Item = PathBuf> {
    let folder = PathBuf::from(format!("/proc/{pid}/map_files"));
    let mut maps = File::open(format!("/proc/{pid}/maps")).ok().map(|maps| BufReader::new(maps).take(most));
    let mut listed = None;
    iter::from_fn(move || {
        if let Some(range) = maps.as_mut().and_then(next_unnamed) {
            return Some(folder.join(range));
        }
        // Behind that all of them are looked at by their addresses alone, whether they have a name or not.
        let is_cut = maps.take().is_some_and(|maps| maps.limit() == 0);
        if is_cut {
            listed = fs::read_dir(&folder).ok();
        }
        listed.as_mut()?.find_map(|entry| Some(entry.ok()?.path()))
    })
}

/// The next mapping of a file without a name.
fn next_unnamed(maps: &mut Take<impl BufRead>) -> Option<String> {
    loop {
        let (beginning, end) = next_line(maps)?;
        let range = (end == UNNAMED).then(|| range(&String::from_utf8_lossy(&beginning))).flatten();
        if range.is_some() {
            return range;
        }
    }
}

/// The beginning and the end of the next line, however long it is.
fn next_line(lines: &mut impl BufRead) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut beginning, mut end) = (Vec::new(), Vec::new());
    loop {
        // The process may be gone by now.
        let read = lines.fill_buf().ok().filter(|read| !read.is_empty())?;
        let newline = read.iter().position(|byte| *byte == b'\n');
        let part = read.get(..newline.unwrap_or(read.len())).unwrap_or_default();
        let room = LINE_BEGINNING.saturating_sub(beginning.len());
        beginning.extend_from_slice(part.get(..room).unwrap_or(part));
        end.extend_from_slice(part.get(part.len().saturating_sub(UNNAMED.len())..).unwrap_or_default());
        end.drain(..end.len().saturating_sub(UNNAMED.len()));
        let used = part.len() + usize::from(newline.is_some());
        lines.consume(used);
        if newline.is_some() {
            return Some((beginning, end));
        }
    }
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

    #[test]
    fn of_a_line_with_a_long_path_its_beginning_and_its_end_are_kept() {
        let address = "00400000-00452000 r-xp 00000000 08:02 173521 ";
        let long = "/long".repeat(100_000);
        let told = format!("{address}{long} (deleted)\n{address}{long}\nshort\n\n5000-6000 r (deleted)\ncut (deleted)");
        let mut reader = BufReader::with_capacity(7, told.as_bytes());
        let (beginning, end) = next_line(&mut reader).unwrap();
        assert_eq!(beginning, &told.as_bytes()[..LINE_BEGINNING]);
        assert_eq!(end, UNNAMED);
        assert!(beginning.capacity() <= 2 * LINE_BEGINNING && end.capacity() <= 8 * UNNAMED.len());
        let mut maps = BufReader::with_capacity(7, told.as_bytes()).take(MAPS_MAX);
        let unnamed: Vec<String> = iter::from_fn(|| next_unnamed(&mut maps)).collect();
        assert_eq!(unnamed, ["400000-452000", "5000-6000"]);
        // No more is read than that.
        let mut maps = BufReader::new(told.as_bytes()).take(1000);
        assert_eq!((next_unnamed(&mut maps), maps.limit()), (None, 0));
    }

    #[test]
    fn behind_what_is_read_of_a_list_all_mappings_are_looked_at() {
        let own = i32::try_from(std::process::id()).unwrap();
        let program = fs::metadata("/proc/self/exe").unwrap().ino();
        let is_seen = |most| {
            let mut found = mapped(own, most).filter_map(|place| fs::read_link(place).ok());
            found.any(|file| fs::metadata(file).is_ok_and(|file| file.ino() == program))
        };
        assert!(is_seen(100));
        assert!(!is_seen(MAPS_MAX), "it has a name");
    }
}
