//! Which file a call changes, from its arguments and the memory of its process.

use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::filter::Notice;
use super::{Deed, FileCall};

/// The call, if it is one of this process on a file below `root`.
pub fn call(notice: &Notice, process: u32, root: &Path) -> Option<FileCall> {
    if process_of(notice.thread)? != process {
        return None;
    }
    let [a, b, c, d, e, _] = notice.arguments;
    let thread = notice.thread;
    let cwd = libc::AT_FDCWD as u32 as u64;
    let at = |folder: u64, path: u64| Some(folder_of(thread, folder)?.join(text(thread, path)?));
    let open = |descriptor: u64| fs::read_link(format!("/proc/{thread}/fd/{}", descriptor as i32)).ok();
    let one = |deed, path: Option<PathBuf>| Some((deed, path?, None));
    let two = |deed, from: Option<PathBuf>, to: Option<PathBuf>| Some((deed, from?, Some(to?)));
    let (deed, path, to) = match notice.call {
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            one(Deed::Write, open(a))
        }
        libc::SYS_sendfile => one(Deed::Write, open(a)),
        // The filter tells of no other one than FICLONE.
        libc::SYS_ioctl => one(Deed::Share, open(a)),
        libc::SYS_copy_file_range => one(Deed::Write, open(c)),
        libc::SYS_ftruncate | libc::SYS_fallocate => one(Deed::Cut, open(a)),
        libc::SYS_fsync | libc::SYS_fdatasync => one(Deed::Sync, open(a)),
        // Asks the kernel to write, and promises nothing: a write.
        libc::SYS_sync_file_range => one(Deed::Write, open(a)),
        libc::SYS_syncfs => one(Deed::SyncFileSystem, open(a)),
        libc::SYS_openat => one(Deed::Create, at(a, b)),
        libc::SYS_mkdirat => one(Deed::Folder, at(a, b)),
        libc::SYS_unlinkat => one(Deed::Remove, at(a, b)),
        libc::SYS_renameat => two(Deed::Rename, at(a, b), at(c, d)),
        libc::SYS_renameat2 if e & 2 != 0 => two(Deed::Exchange, at(a, b), at(c, d)),
        libc::SYS_renameat2 => two(Deed::Rename, at(a, b), at(c, d)),
        libc::SYS_linkat => two(Deed::Link, at(a, b), at(c, d)),
        libc::SYS_symlinkat => one(Deed::Link, at(b, c)),
        call => old_call(call, |path| at(cwd, path), a, b),
    }?;
    let inside =
        |path: PathBuf| Some(path.strip_prefix(root).ok()?.to_str()?.trim_end_matches(" (deleted)").to_owned());
    let to = to.and_then(inside);
    match inside(path) {
        Some(path) => Some(FileCall { deed, path, to }),
        // What comes from outside is new here.
        None => to.map(|to| FileCall { deed, path: String::new(), to: Some(to) }),
    }
}

#[cfg(target_arch = "x86_64")]
fn old_call(
    call: libc::c_long,
    at: impl Fn(u64) -> Option<PathBuf>,
    a: u64,
    b: u64,
) -> Option<(Deed, PathBuf, Option<PathBuf>)> {
    Some(match call {
        libc::SYS_rename => (Deed::Rename, at(a)?, Some(at(b)?)),
        libc::SYS_link => (Deed::Link, at(a)?, Some(at(b)?)),
        libc::SYS_symlink => (Deed::Link, at(b)?, None),
        libc::SYS_mkdir => (Deed::Folder, at(a)?, None),
        libc::SYS_unlink | libc::SYS_rmdir => (Deed::Remove, at(a)?, None),
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn old_call(
    _: libc::c_long,
    _: impl Fn(u64) -> Option<PathBuf>,
    _: u64,
    _: u64,
) -> Option<(Deed, PathBuf, Option<PathBuf>)> {
    None
}

/// The process that a thread belongs to.
fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

fn folder_of(thread: u32, descriptor: u64) -> Option<PathBuf> {
    let link = match descriptor as i32 {
        libc::AT_FDCWD => format!("/proc/{thread}/cwd"),
        open => format!("/proc/{thread}/fd/{open}"),
    };
    fs::read_link(link).ok()
}

/// The path at an address, up to its NUL.
fn text(thread: u32, address: u64) -> Option<PathBuf> {
    let memory = File::open(format!("/proc/{thread}/mem")).ok()?;
    let mut bytes = Vec::new();
    // In small pieces: what follows may not be there.
    let mut piece = [0; 64];
    loop {
        let got = memory.read_at(&mut piece, address + bytes.len() as u64).ok().filter(|got| *got > 0)?;
        match piece[..got].iter().position(|byte| *byte == 0) {
            Some(end) => {
                bytes.extend_from_slice(&piece[..end]);
                return Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)));
            }
            None => bytes.extend_from_slice(&piece[..got]),
        }
    }
}

/// A path without what differs from run to run: ids, hashes and the random part of temporary names.
pub fn plain(path: &str) -> String {
    let parts: Vec<String> = path.split('/').map(plain_name).collect();
    parts.join("/")
}

fn plain_name(name: &str) -> String {
    let is_id = |text: &str| text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4;
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    for (at, _) in name.char_indices() {
        if name.get(at..at + 36).is_some_and(is_id) {
            return format!("{}<id>{}", &name[..at], &name[at + 36..]);
        }
        if name.get(at..at + 64).is_some_and(is_hash) {
            return format!("{}<hash>{}", &name[..at], &name[at + 64..]);
        }
    }
    // Six random letters or digits, between these.
    for (before, behind) in [
        (".", ".tmp"),
        (".events-", ".tmp"),
        (".unpacking-", ""),
        (".making-", ""),
        (".tmp", ""),
        ("package-", ""),
        ("upload-", ".zip"),
    ] {
        let random = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
        if random.is_some_and(|random| random.len() == 6 && random.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            return format!("{before}<new>{behind}");
        }
    }
    // Spare copies are numbered, and so are folders that wait to be emptied.
    let number = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let before = &name[..name.len() - number.len()];
    if matches!(before, "" | ".spare-") && number.parse::<u64>().is_ok() {
        return format!("{before}<n>");
    }
    name.to_owned()
}
