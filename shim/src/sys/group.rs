//! A process that is born in a control group, and the removal of the group.

use super::{Fd, Result, SIGCHLD, call, number, path, word};

/// Makes a copy of this process, as `fork` does, that is born in a control group.
pub(crate) fn fork_into(group: Fd) -> Result<Option<i32>> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // The kernel's `clone_args`: flags, three that are not used, the signal at the end, five that are not used, the group.
    let mut arguments = [0_u64; 11];
    arguments[0] = CLONE_INTO_CGROUP;
    arguments[4] = SIGCHLD as u64;
    arguments[10] = group.0 as u64;
    // SAFETY: without a stack or shared memory, the copy has everything for itself; the kernel only reads the arguments.
    let pid = unsafe { call(number::CLONE3, [arguments.as_ptr() as usize, size_of_val(&arguments)]) }? as i32;
    Ok((pid != 0).then_some(pid))
}

/// Removes an empty folder. The path ends with a NUL byte.
pub(crate) fn remove_folder(ended: &[u8]) -> Result<()> {
    const AT_FDCWD: i32 = -100;
    const AT_REMOVEDIR: usize = 0x200;
    // SAFETY: the path ends with a NUL byte.
    unsafe { call(number::UNLINKAT, [word(AT_FDCWD), path(ended)?, AT_REMOVEDIR]) }.map(drop)
}
