//! System calls that take something away from a process: namespaces, mounts, privileges, system calls.

use super::{Errno, Fd, Result, address, address_mut, call, number, path, word};

const AT_FDCWD: i32 = -100;
const AT_EMPTY_PATH: usize = 0x1000;
const AT_RECURSIVE: usize = 0x8000;
const EMPTY: &[u8] = b"\0";

const MS_NOSUID: usize = 2;
const MS_NODEV: usize = 4;
const MS_REC_PRIVATE: usize = 0x4000 | 0x4_0000;

const CLONE_NEWNS: usize = 0x2_0000;

/// From here on this process, or for processes its children, are in namespaces of their own.
pub(crate) fn enter_namespaces(flags: u64) -> Result<()> {
    // SAFETY: only a number is passed.
    unsafe { call(number::UNSHARE, [flags as usize]) }.map(drop)
}

/// From here on this process and its descendants have mounts of their own, and see no later ones of others.
pub(crate) fn private_mounts() -> Result<()> {
    enter_namespaces(CLONE_NEWNS as u64)?;
    // SAFETY: the path ends with a NUL byte; the other places are unused.
    unsafe { call(number::MOUNT, [0, path(b"/\0")?, 0, MS_REC_PRIVATE, 0]) }.map(drop)
}

/// What a mount does not allow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Without(u64);

impl Without {
    pub(crate) const WRITING: Without = Without(1);
    /// Neither programs that change their user nor devices.
    pub(crate) const PRIVILEGES: Without = Without(2 | 4);

    pub(crate) fn and(self, other: Without) -> Without {
        Without(self.0 | other.0)
    }
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

fn restrict(folder: i32, ended: &[u8], flags: usize, without: Without) -> Result<()> {
    let attributes = MountAttributes { set: without.0, clear: 0, propagation: 0, user_namespace: 0 };
    let length = size_of::<MountAttributes>();
    // SAFETY: the path ends with a NUL byte, and the kernel reads the attributes alone.
    unsafe { call(number::MOUNT_SETATTR, [word(folder), path(ended)?, flags, address(&attributes), length]) }.map(drop)
}

/// Takes something from the mount at this place.
pub(crate) fn restrict_mount(ended: &[u8], without: Without) -> Result<()> {
    restrict(AT_FDCWD, ended, 0, without)
}

/// Takes something from the mount at this place and from all below it.
pub(crate) fn restrict_mounts(ended: &[u8], without: Without) -> Result<()> {
    restrict(AT_FDCWD, ended, AT_RECURSIVE, without)
}

/// A copy of what is mounted here, which is not yet anywhere. It does not matter what is mounted above it later.
pub(crate) fn take_tree(ended: &[u8], without: Option<Without>) -> Result<Fd> {
    const OPEN_TREE_CLONE: usize = 1;
    const O_CLOEXEC: usize = 0o2_000_000;
    let flags = OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE;
    // SAFETY: the path ends with a NUL byte.
    let tree = unsafe { call(number::OPEN_TREE, [word(AT_FDCWD), path(ended)?, flags]) }? as i32;
    if let Some(without) = without {
        restrict(tree, EMPTY, AT_EMPTY_PATH | AT_RECURSIVE, without)?;
    }
    Ok(Fd(tree))
}

/// Puts a copy in its place, and closes it.
pub(crate) fn place_tree(tree: Fd, ended: &[u8]) -> Result<()> {
    const MOVE_MOUNT_F_EMPTY_PATH: usize = 4;
    let from = [word(tree.0), path(EMPTY)?, word(AT_FDCWD), path(ended)?, MOVE_MOUNT_F_EMPTY_PATH];
    // SAFETY: both paths end with a NUL byte.
    let placed = unsafe { call(number::MOVE_MOUNT, from) }.map(drop);
    super::close(tree);
    placed
}

/// Whether an open file is a folder.
pub(crate) fn is_folder(file: Fd) -> bool {
    const STATX_TYPE: usize = 1;
    const MODE_AT: usize = 28;
    let mut found = [0_u8; 256];
    // SAFETY: the kernel writes a `struct statx`, which has 256 bytes.
    let asked = unsafe {
        call(number::STATX, [word(file.0), EMPTY.as_ptr() as usize, AT_EMPTY_PATH, STATX_TYPE, address_mut(&mut found)])
    };
    let mode = found.get(MODE_AT..MODE_AT + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_ne_bytes);
    asked.is_ok() && mode & 0o170_000 == 0o040_000
}

/// Mounts a new file system of this kind. All words end with a NUL byte.
pub(crate) fn mount_new(kind: &[u8], target: &[u8], options: &[u8], devices: bool) -> Result<()> {
    let flags = if devices { MS_NOSUID } else { MS_NOSUID | MS_NODEV };
    let options = if options == EMPTY { 0 } else { path(options)? };
    // SAFETY: all words end with a NUL byte.
    unsafe { call(number::MOUNT, [path(kind)?, path(target)?, path(kind)?, flags, options]) }.map(drop)
}

/// What cannot be made because it is there.
const EEXIST: Errno = Errno(17);

/// Makes a folder; one that is there already is as good.
pub(crate) fn make_folder(ended: &[u8]) -> Result<()> {
    // SAFETY: the path ends with a NUL byte.
    match unsafe { call(number::MKDIRAT, [word(AT_FDCWD), path(ended)?, 0o755]) } {
        Ok(_) | Err(EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes an empty file, unless something is there. That is not opened: it may be a program at work, or a pipe.
pub(crate) fn make_file(ended: &[u8]) -> Result<()> {
    const WRITE_CREATE_NEW_CLOEXEC: usize = 1 | 0o100 | 0o200 | 0o2_000_000;
    // SAFETY: the path ends with a NUL byte.
    match unsafe { call(number::OPENAT, [word(AT_FDCWD), path(ended)?, WRITE_CREATE_NEW_CLOEXEC, 0o600]) } {
        Ok(file) => {
            super::close(Fd(file as i32));
            Ok(())
        }
        Err(EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a link. Both words end with a NUL byte.
pub(crate) fn make_link(to: &[u8], ended: &[u8]) -> Result<()> {
    // SAFETY: both words end with a NUL byte.
    unsafe { call(number::SYMLINKAT, [path(to)?, word(AT_FDCWD), path(ended)?]) }.map(drop)
}

/// Writes a file that is there, at once.
pub(crate) fn write_file(ended: &[u8], bytes: &[u8]) -> Result<()> {
    const WRITE_CLOEXEC: usize = 1 | 0o2_000_000;
    // SAFETY: the path ends with a NUL byte.
    let file = Fd(unsafe { call(number::OPENAT, [word(AT_FDCWD), path(ended)?, WRITE_CLOEXEC, 0]) }? as i32);
    let written = super::write(file, bytes);
    super::close(file);
    written.map(drop)
}

/// Who is not root in this process's user namespace may no longer look into it.
pub(crate) fn be_opaque() {
    const PR_SET_DUMPABLE: usize = 4;
    // SAFETY: only numbers are passed.
    let _ = unsafe { call(number::PRCTL, [PR_SET_DUMPABLE, 0, 0, 0, 0]) };
}

/// Gives up every capability, now and for every program that is executed later.
pub(crate) fn drop_privileges() -> Result<()> {
    const PR_CAPBSET_DROP: usize = 24;
    const PR_SET_NO_NEW_PRIVS: usize = 38;
    const PR_CAP_AMBIENT: usize = 47;
    const CLEAR_ALL: usize = 4;
    const VERSION_3: u32 = 0x2008_0522;
    for capability in 0..64 {
        // SAFETY: only numbers are passed.
        if unsafe { call(number::PRCTL, [PR_CAPBSET_DROP, capability, 0, 0, 0]) }.is_err() {
            // The kernel knows no more, or this process had none to give up.
            break;
        }
    }
    // SAFETY: only numbers are passed. Old kernels know no such capabilities.
    let _ = unsafe { call(number::PRCTL, [PR_CAP_AMBIENT, CLEAR_ALL, 0, 0, 0]) };
    let (head, none) = ([VERSION_3, 0], [0_u32; 6]);
    // SAFETY: the kernel reads a head of 8 bytes and two sets of 12.
    unsafe { call(number::CAPSET, [address(&head), address(&none)]) }?;
    // SAFETY: only numbers are passed.
    unsafe { call(number::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0]) }.map(drop)
}

#[repr(C)]
struct FilterProgram {
    length: u16,
    instructions: *const u8,
}

/// Filters the system calls of this process and its descendants, by instructions of 8 bytes each.
pub(crate) fn filter_calls(instructions: &[u8]) -> Result<()> {
    const PR_SET_SECCOMP: usize = 22;
    const MODE_FILTER: usize = 2;
    let length = u16::try_from(instructions.len() / 8).map_err(|_| Errno::INVAL)?;
    let program = FilterProgram { length, instructions: instructions.as_ptr() };
    // SAFETY: the kernel reads as many instructions as there are.
    unsafe { call(number::PRCTL, [PR_SET_SECCOMP, MODE_FILTER, address(&program), 0, 0]) }.map(drop)
}
