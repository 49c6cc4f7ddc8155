//! The service's side: a process, a request, and an answer within its time.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;

use super::wire::{FAILED, NAME, RENDERED, Request};
use crate::prompt::{PROMPT_MAX, TemplateFailed};

/// How long an answer is waited for: far longer than the processor time it may take, for machines with much else to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// Renders a template in a process of this program.
pub(super) fn render(program: &Path, template: &str, values: &Value) -> Result<String, TemplateFailed> {
    let broken = |error: io::Error| TemplateFailed { reason: format!("the process that renders it: {error}") };
    let request = Request { template: template.into(), values: Cow::Borrowed(values) };
    let stdin = whole_request(&request).map_err(broken)?;
    let mut command = Command::new(program);
    command.arg0(NAME).env_clear().stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(broken)?;
    let mut bytes = Vec::new();
    let read = match child.stdout.take() {
        Some(stdout) => read_until(stdout, Instant::now() + PATIENCE, &mut bytes),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    };
    // It has closed its output, or has had its time.
    let _ = child.kill();
    let status = child.wait().map_err(broken)?;
    read.map_err(broken)?;
    match String::from_utf8(bytes).map_err(|error| broken(io::Error::other(error)))? {
        text if text.as_bytes().first() == Some(&RENDERED) => Ok(text[1..].to_owned()),
        text if text.as_bytes().first() == Some(&FAILED) => Err(TemplateFailed { reason: text[1..].to_owned() }),
        _ => Err(TemplateFailed { reason: unanswered(status).to_owned() }),
    }
}

/// The request as a file in memory: a process that reads slowly, or never, holds nobody up.
fn whole_request(request: &Request<'_>) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("template", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(request)?)?;
    file.rewind()?;
    Ok(file.into())
}

/// Reads until the end or the deadline, and not more than a prompt may have.
fn read_until(mut stdout: ChildStdout, deadline: Instant, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 16 * 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match stdout.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(_) if bytes.len() > PROMPT_MAX => return Err(io::Error::other("its answer is too long")),
            Ok(length) => bytes.extend_from_slice(piece.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn unanswered(status: ExitStatus) -> &'static str {
    const XCPU: i32 = rustix::process::Signal::XCPU.as_raw();
    const KILL: i32 = rustix::process::Signal::KILL.as_raw();
    match status.signal() {
        Some(XCPU | KILL) => "it takes too long",
        Some(_) => "it takes too much memory, or makes values too deep",
        None => "the process that renders it gave no answer",
    }
}
