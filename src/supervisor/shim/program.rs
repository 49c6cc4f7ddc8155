//! The shim's program, which this one carries inside, as a file to execute.
//!
//! The file has no name: nobody can replace it, and it may be executed even where the data folder may not hold programs.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use skill_runner_shim::wire::NAME;

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/skill-run-shim"));

/// The file, open as long as this process lives.
static FILE: OnceLock<Executable> = OnceLock::new();

struct Executable {
    path: PathBuf,
    _file: File,
}

/// The path of the shim's program, valid in this process and in a child before its exec.
pub(crate) fn path() -> io::Result<&'static Path> {
    if let Some(made) = FILE.get() {
        return Ok(&made.path);
    }
    // Some machines let nobody execute files in memory.
    let made = in_memory().or_else(|_| on_disk())?;
    Ok(&FILE.get_or_init(|| made).path)
}

fn in_memory() -> io::Result<Executable> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match memfd_create(NAME, flags | MemfdFlags::EXEC) {
        // Linux before 6.3 does not know the flag; there such a file may always be executed.
        Err(Errno::INVAL) => memfd_create(NAME, flags),
        made => made,
    }?;
    let mut file = File::from(file);
    file.write_all(PROGRAM)?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(Executable::of(file))
}

fn on_disk() -> io::Result<Executable> {
    let mut file = tempfile::tempfile()?;
    file.write_all(PROGRAM)?;
    file.set_permissions(Permissions::from_mode(0o500))?;
    // What is open for writing cannot be executed.
    Ok(Executable::of(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?))
}

impl Executable {
    fn of(file: File) -> Executable {
        Executable { path: format!("/proc/self/fd/{}", file.as_raw_fd()).into(), _file: file }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_program_runs_from_memory_and_from_a_file_without_a_name() {
        for made in [in_memory().unwrap(), on_disk().unwrap()] {
            // Without an order it gives up. For a moment others that are just being started may have the file open.
            let ran = || Command::new(&made.path).stdin(Stdio::null()).status();
            let busy = |ran: &io::Result<_>| {
                ran.as_ref().is_err_and(|error: &io::Error| error.kind() == io::ErrorKind::ExecutableFileBusy)
            };
            let ran = std::iter::repeat_with(ran).find(|ran| !busy(ran)).unwrap();
            assert_eq!(ran.unwrap().code(), Some(1));
        }
    }

    #[test]
    fn nobody_can_change_it() {
        let path = in_memory().unwrap();
        let file = File::options().write(true).open(&path.path).unwrap();
        assert_eq!((&file).write(b"x").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(file.set_len(0).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
