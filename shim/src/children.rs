//! The shim's children, found in `/proc` and killed.

use crate::stat::Stat;
use crate::sys::{self, Fd};
use crate::text::{Path, number};

/// Kills every child of this process, and its whole process group.
pub(crate) fn kill_children() {
    let own = sys::own_pid();
    let Ok(folder) = sys::open(b"/proc\0") else { return };
    // The kernel writes numbers of 8 bytes into it.
    let mut entries = [0_u64; 1024];
    loop {
        // SAFETY: the same memory, seen as bytes.
        let (_, bytes, _) = unsafe { entries.align_to_mut::<u8>() };
        match sys::read_folder(folder, bytes) {
            Ok(0) | Err(_) => break,
            Ok(read) => each_pid(bytes.get(..read).unwrap_or_default(), |pid| kill_if_child(pid, own)),
        }
    }
    sys::close(folder);
}

/// The entries of a folder whose names are numbers.
fn each_pid(mut entries: &[u8], mut with: impl FnMut(&[u8])) {
    // Before an entry's name: its inode and offset of 8 bytes each, its length of 2, its kind of 1.
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    while let Some(length) = entries.get(LENGTH_AT..LENGTH_AT + 2).and_then(|bytes| bytes.try_into().ok()) {
        let Some((entry, rest)) = entries.split_at_checked(usize::from(u16::from_ne_bytes(length)).max(NAME_AT)) else {
            return;
        };
        let name = entry.get(NAME_AT..).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        if number(name).is_some() {
            with(name);
        }
        entries = rest;
    }
}

fn kill_if_child(pid: &[u8], own: i32) {
    let Some(stat) = look_at(pid).filter(|stat| stat.parent == own) else { return };
    // A child that is not reaped yet, so its pid means no other process.
    if let Some(pid) = number(pid).and_then(|pid| i32::try_from(pid).ok()) {
        sys::kill(pid, sys::SIGKILL);
    }
    // A group never spans sessions and the engine began its own, so every member belongs to this run. Killing the whole
    // group at once also kills what forks faster than it can be listed.
    if stat.group > 1 && stat.group != own {
        sys::kill(-stat.group, sys::SIGKILL);
    }
}

fn look_at(pid: &[u8]) -> Option<Stat> {
    let path = Path::<40>::of(&[b"/proc/", pid, b"/stat"])?;
    let file = sys::open(path.ended()).ok()?;
    let mut line = [0; 1024];
    let stat = read_line(file, &mut line);
    sys::close(file);
    stat
}

fn read_line(file: Fd, line: &mut [u8]) -> Option<Stat> {
    let read = sys::read(file, line).ok()?;
    Stat::parse(line.get(..read)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_entries_of_a_folder_the_numbers_are_taken() {
        let mut entries = Vec::new();
        for name in ["1", "self", "4194304", "42x", "7"] {
            let length = (NAME_AT_END + name.len()).next_multiple_of(8);
            let mut entry = vec![0; length];
            entry[16..18].copy_from_slice(&u16::try_from(length).unwrap().to_ne_bytes());
            entry[19..19 + name.len()].copy_from_slice(name.as_bytes());
            entries.append(&mut entry);
        }
        let mut found = Vec::new();
        each_pid(&entries, |pid| found.push(String::from_utf8(pid.to_vec()).unwrap()));
        assert_eq!(found, ["1", "4194304", "7"]);
    }

    const NAME_AT_END: usize = 20;

    #[test]
    fn this_process_is_seen_with_its_parent() {
        let own = look_at(std::process::id().to_string().as_bytes()).unwrap();
        assert_eq!(u32::try_from(own.parent).unwrap(), std::os::unix::process::parent_id());
        assert!(look_at(b"0").is_none());
    }
}
