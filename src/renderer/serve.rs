//! The renderer's side: limits first, then one request from standard input, one answer on standard output.

use std::io::{self, Read, Write};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::wire::{FAILED, RENDERED, Request};
use crate::prompt;

/// Memory a template may take, in bytes, besides what the program itself has.
const MEMORY_MAX: u64 = 256 * 1024 * 1024;
/// Seconds of processor time; after the first limit the process is asked to end, after the second it is killed.
const CPU_SECONDS_MAX: (u64, u64) = (2, 3);

/// Renders what is asked for; the exit status.
pub(super) fn serve() -> i32 {
    match limit().and_then(|()| answer()) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn limit() -> io::Result<()> {
    let (soft, hard) = CPU_SECONDS_MAX;
    at_most(Resource::Cpu, soft, hard)?;
    at_most(Resource::Core, 0, 0)?;
    at_most(Resource::Fsize, 0, 0)?;
    let memory = own_memory()?.saturating_add(MEMORY_MAX);
    at_most(Resource::As, memory, memory)
}

/// Lowers a limit; one that is lower already stays.
fn at_most(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let lower = |limit: Option<u64>, most: u64| Some(limit.map_or(most, |limit| limit.min(most)));
    Ok(setrlimit(resource, Rlimit { current: lower(now.current, soft), maximum: lower(now.maximum, hard) })?)
}

/// The size of the address space now, in bytes.
fn own_memory() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kibibytes: u64 = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .and_then(|number| number.parse().ok())
        .ok_or(io::ErrorKind::InvalidData)?;
    Ok(kibibytes.saturating_mul(1024))
}

fn answer() -> io::Result<()> {
    let mut request = Vec::new();
    io::stdin().lock().read_to_end(&mut request)?;
    let request: Request<'_> = serde_json::from_slice(&request)?;
    let (mark, text) = match prompt::evaluate(&request.template, &request.values) {
        Ok(prompt) => (RENDERED, prompt),
        Err(failed) => (FAILED, failed.reason),
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(&[mark])?;
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    // What the template made is not dropped, because dropping deep values takes stack.
    std::process::exit(0)
}
