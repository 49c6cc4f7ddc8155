//! A file system of our own, in a file: it can be filled, and its power can be cut.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{LONG, left_out};

/// Whether this process has mounts of its own; else it runs the test of this name in a process that has them, to its end.
///
/// Each run of a service elsewhere that has a mount namespace keeps every disk it found mounted, also one whose power was cut
/// and that was unmounted here: it could not be mounted anew until that run is over.
pub fn has_own_mounts(test: &str) -> bool {
    const MARK: &str = "TEST_HAS_OWN_MOUNTS";
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        command
    };
    // Without the right to do so there is no disk of our own either, and that is said when it is made.
    if std::env::var_os(MARK).is_some() || run(unshare().arg("true")).is_err() {
        return true;
    }
    let mut child = unshare();
    child.arg(std::env::current_exe().unwrap()).args([test, "--exact", "--include-ignored", "--nocapture"]);
    let status = child.env(MARK, "1").stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{test} failed in a process with mounts of its own: {status}");
    false
}

/// A file system of its own whose power can be cut; unmounted when dropped.
pub struct Disk {
    image: PathBuf,
    pub mount_point: PathBuf,
    mounted: bool,
}

impl Disk {
    /// A disk of so many bytes; `None`, and a word about it, where that is not possible.
    pub fn make(dir: &Path, bytes: u64) -> Option<Disk> {
        let disk = Disk::try_make(dir, bytes);
        disk.inspect_err(|reason| left_out::tell("a disk of our own needs root and loop devices", reason)).ok()
    }

    fn try_make(dir: &Path, bytes: u64) -> Result<Disk, String> {
        let (image, mount_point) = (dir.join("disk.img"), dir.join("disk"));
        std::fs::create_dir(&mount_point).map_err(|error| error.to_string())?;
        File::create(&image).and_then(|file| file.set_len(bytes)).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image))?;
        let mut disk = Disk { image, mount_point, mounted: false };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&mut self) -> Result<(), String> {
        // The loop device is set up by mount and goes away with it.
        run(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.mount_point))?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), String> {
        run(Command::new("umount").arg(&self.mount_point))?;
        self.mounted = false;
        Ok(())
    }

    /// From now on nothing reaches the disk, not even the file system's own journal.
    pub fn cut_power(&self) {
        const EXT4_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
        let no_log_flush: u32 = 2;
        let root = File::open(&self.mount_point).unwrap();
        // SAFETY: the request reads one u32 behind the pointer, which outlives the call.
        let result = unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const no_log_flush) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    /// Writes until nothing more fits, and returns the file that takes the room.
    pub fn fill(mount_point: &Path) -> PathBuf {
        let filler = mount_point.join("filler");
        let mut file = File::options().create(true).append(true).open(&filler).unwrap();
        loop {
            let before = file.metadata().unwrap().len();
            for piece in [1 << 20, 1 << 12, 1] {
                while file.write_all(&vec![1; piece]).is_ok() {}
            }
            // Blocks of removed files are free when the file system's journal is written, and not before.
            rustix::fs::syncfs(&file).unwrap();
            if file.metadata().unwrap().len() == before {
                return filler;
            }
        }
    }

    pub fn restore_power(&mut self) {
        // What was killed on it may take a moment to go.
        let limit = Instant::now() + LONG;
        while let Err(error) = self.unmount() {
            assert!(Instant::now() < limit, "{error}");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.mount().unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted && self.unmount().is_err() {
            let _ = run(Command::new("umount").arg("-l").arg(&self.mount_point));
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", said.trim())) }
}
