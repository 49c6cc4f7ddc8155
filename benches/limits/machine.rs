//! What the machine does without the service.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::numbers::median;
use crate::setup::timed;

/// Starts the script as barely as possible and takes its output.
pub fn spawn(script: &Path) {
    let mut command = Command::new("sh");
    command.arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    assert!(command.spawn().unwrap().wait_with_output().unwrap().status.success());
}

/// Milliseconds of each append of 4 KiB with its fdatasync.
pub fn appends(folder: &Path, rounds: usize) -> Vec<f64> {
    let mut file = tempfile::tempfile_in(folder).unwrap();
    timed(rounds, || {
        file.write_all(&[b'x'; 4096]).unwrap();
        file.sync_data().unwrap();
    })
}

/// Milliseconds that a byte takes on the way of a line, done barely: through a pipe to a thread that appends 4 KiB and syncs
/// them, from there to a second one that does the same with another file, and through a pipe back. One each 20 ms, as the
/// measured lines: cores and disk rest in between, and what wakes them is part of the way.
pub fn paced_lines(folder: &Path, rounds: usize) -> Vec<f64> {
    let (mut line, mut written) = std::io::pipe().map(|(reader, writer)| (writer, reader)).unwrap();
    let (mut shown, mut show) = std::io::pipe().unwrap();
    let (to_commit, committing) = std::sync::mpsc::channel::<()>();
    let append = || {
        let mut file = tempfile::tempfile_in(folder).unwrap();
        move || {
            file.write_all(&[b'x'; 4096]).unwrap();
            file.sync_data().unwrap();
        }
    };
    let (mut append_raw, mut append_event) = (append(), append());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while written.read_exact(&mut [0]).is_ok() {
                append_raw();
                to_commit.send(()).unwrap();
            }
        });
        scope.spawn(move || {
            while committing.recv().is_ok() {
                append_event();
                show.write_all(b"x").unwrap();
            }
        });
        let times = (0..rounds).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            timed(1, || {
                line.write_all(b"x").unwrap();
                shown.read_exact(&mut [0]).unwrap();
            })[0]
        });
        let times = times.collect();
        // The threads end one after the other.
        drop(line);
        times
    })
}

/// Runs the script and takes what it writes to standard error from the pipe to a file, with an fdatasync each
/// 128 KiB; seconds until all is on the disk.
pub fn pipe_to_file(script: &Path, folder: &Path) -> f64 {
    const SYNC_EVERY: usize = 128 * 1024;
    let began = Instant::now();
    let mut file = tempfile::tempfile_in(folder).unwrap();
    let mut command = Command::new("sh");
    command.arg(script).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stderr.take().unwrap();
    let mut chunk = vec![0; SYNC_EVERY];
    let mut unsynced = 0;
    loop {
        let read = pipe.read(&mut chunk).unwrap();
        file.write_all(&chunk[..read]).unwrap();
        unsynced += read;
        if unsynced >= SYNC_EVERY || read == 0 {
            file.sync_data().unwrap();
            unsynced = 0;
        }
        if read == 0 {
            break;
        }
    }
    assert!(child.wait().unwrap().success());
    began.elapsed().as_secs_f64()
}

/// ext4 looks at each inode that was freed within the last one to five minutes before it takes another one, so
/// creating files is slow for minutes after many were deleted. Beside files in memory, creating one takes 2 to 3
/// times as long on ext4, and 5 times and more after a mass delete.
const USUAL_CREATION: f64 = 4.0;

/// Says what would make figures of this run worse than they are on a quiet machine.
pub fn warn_of_disturbances(folder: &Path) {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let memory = tempfile::tempdir_in(memory).unwrap();
        let (disk, memory) = (creation(folder), creation(memory.path()));
        if disk / memory > USUAL_CREATION {
            println!(
                "warning: creating a file takes {:.0} µs, {:.1} times as long as in memory (usual: 2 to 3): many files were \
                 deleted on this file system within the last minutes; runs are measured slower than they are",
                disk * 1e6,
                disk / memory
            );
        }
    }
    let load: f64 = fs::read_to_string("/proc/loadavg").unwrap().split_whitespace().next().unwrap().parse().unwrap();
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    if load > cores / 2.0 {
        println!(
            "warning: the machine is busy (load {load}, {cores} cores): trust counts, bytes and ratios, not times"
        );
    }
}

/// Seconds to create a small file, the median of some rounds.
fn creation(folder: &Path) -> f64 {
    const FILES: u32 = 100;
    let round = |_| {
        let folder = tempfile::tempdir_in(folder).unwrap();
        let began = Instant::now();
        for at in 0..FILES {
            File::create_new(folder.path().join(at.to_string())).unwrap().write_all(&[b'x'; 200]).unwrap();
        }
        let each = began.elapsed().as_secs_f64() / f64::from(FILES);
        // Deleted with all the rest.
        let _ = folder.keep();
        each
    };
    median(&(0..5).map(round).collect::<Vec<_>>())
}
