//! A program of a maker: what it prints goes on to the maker's standard error, and its end is kept.

use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How much of its end is kept.
const KEPT: usize = 16 * 1024;
/// A program that says nothing for so long is reported to be still at work.
const SILENCE: Duration = Duration::from_secs(30);
/// Pieces of output that may wait.
const WAITING: usize = 16;

/// How a program ended, and the end of what it printed.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) said: String,
}

/// Tells how far the maker is; the run shows it as its progress.
pub(super) fn tell(message: &str) {
    // Whoever listened is gone.
    let _ = writeln!(io::stderr(), "0% {message}");
}

/// Runs a program to its end. `doing` is told again while it is silent.
pub(super) fn run(command: &mut Command, doing: &str) -> io::Result<Finished> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command holds the writing ends, and the pipe ends with the last of them.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let pieces = pieces(reader)?;
    let (began, mut said) = (Instant::now(), Vec::new());
    loop {
        match pieces.recv_timeout(SILENCE) {
            Ok(piece) => {
                let _ = io::stderr().write_all(&piece);
                said.extend_from_slice(&piece);
                let surplus = said.len().saturating_sub(KEPT);
                said.drain(..surplus);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => tell(&format!("{doing}: {} s so far", began.elapsed().as_secs())),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait()?;
    if said.last().is_some_and(|last| *last != b'\n') {
        let _ = io::stderr().write_all(b"\n");
    }
    Ok(Finished { status, said: String::from_utf8_lossy(&said).into_owned() })
}

fn pieces(mut from: impl Read + Send + 'static) -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::sync_channel(WAITING);
    thread::Builder::new().spawn(move || {
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}
