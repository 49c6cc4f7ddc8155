//! Mixed work for a while: does the service take more and more of anything?
//!
//! `cargo bench --bench soak [-- 10m]`: scripts, questions with their answers, cached results, long output, cancels,
//! readers that come and go, pages of history and clean-up, for two minutes unless told otherwise. Each second memory,
//! descriptors, threads, the store, the run folders and the latency of requests are noted: a table, and a plot in
//! `target/soak/soak.svg`. Exit status 1 when something still grows at the end, a request was not answered as it should
//! be, or a run does not pass its audit. `BENCH_PROGRAM` and `BENCH_DIR` name another program and another place.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

mod load;
mod plot;
mod sample;
mod verdict;

#[path = "../support/client.rs"]
mod client;
#[path = "../support/numbers.rs"]
mod numbers;
#[path = "../support/service.rs"]
mod service;
#[path = "../support/skills.rs"]
mod skills;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::load::Load;
use crate::sample::Sample;
use crate::service::Service;

const USUAL: Duration = Duration::from_secs(120);
/// The most runs that are audited at the end.
const AUDITED: usize = 30;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` asks for a list of tests: there are none.
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let asked = words.iter().find(|word| !word.starts_with('-'));
    let Some(duration) = asked.map_or(Some(USUAL), |word| duration(word)) else {
        eprintln!("how long? For example 90s or 10m, at least 30s");
        return ExitCode::from(2);
    };
    let variable = |name: &str, usual: &str| PathBuf::from(std::env::var_os(name).unwrap_or_else(|| usual.into()));
    let program = variable("BENCH_PROGRAM", env!("CARGO_BIN_EXE_skill-runner"));
    let folder = tempfile::tempdir_in(variable("BENCH_DIR", env!("CARGO_TARGET_TMPDIR"))).unwrap();

    write_skills(&folder.path().join("skills"));
    let engine = skills::asking(folder.path());
    let settings = [
        ("codex_bin", engine.to_str().unwrap()),
        // Finished runs leave the store while the soak lasts, not a minute later.
        ("seal_grace_seconds", "5"),
    ];
    let service = Service::start(&program, folder.path(), &settings);
    println!("served after {:.0} ms, for {} s", numbers::ms(service.started_in), duration.as_secs());
    let load = Load::new(&service);
    let samples = load.carry_out(duration);
    let failures = load.failures();

    sample::print(&samples);
    let plot = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../soak/soak.svg");
    std::fs::create_dir_all(plot.parent().unwrap()).unwrap();
    std::fs::write(&plot, plot::svg(&samples)).unwrap();
    println!("\nplot: {}", plot.canonicalize().unwrap().display());
    let runs = finished_runs(&service);
    service.stop();

    let flat = verdict::print(&samples);
    let audited = audit(&program, folder.path(), &runs);
    failures.iter().take(10).for_each(|failure| println!("not answered as it should be: {failure}"));
    println!("requests not answered as they should be: {}", failures.len());
    if flat && audited && failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn duration(word: &str) -> Option<Duration> {
    let (number, unit) = word.split_at_checked(word.len().checked_sub(1)?)?;
    let seconds = number.parse::<u64>().ok()? * [("s", 1), ("m", 60)].iter().find(|(name, _)| *name == unit)?.1;
    (seconds >= 30).then(|| Duration::from_secs(seconds))
}

fn write_skills(skills: &Path) {
    skills::script(skills, "noop", "");
    skills::script(skills, "cached", "");
    skills::script(skills, "hang", "sleep 60");
    skills::script(skills, "steps", &skills::lines(5_000, "%d%% step %d of a run that reports each step"));
    skills::script(skills, "talk", &skills::lines(20_000, "line %d %d of a run that has a lot to say"));
}

/// Ids of some runs that are over.
fn finished_runs(service: &Service) -> Vec<String> {
    let mut client = service.client();
    let page = client.json("GET", "/v1/jobs?limit=500", None);
    let over = ["succeeded", "failed", "canceled"].map(|status| json!(status));
    let jobs = page["jobs"].as_array().unwrap().iter().filter(|job| over.contains(&job["status"]));
    jobs.map(|job| job["request_id"].as_str().unwrap().to_owned()).take(AUDITED).collect()
}

/// Whether the logs, streams and results of these runs are in order.
fn audit(program: &Path, folder: &Path, runs: &[String]) -> bool {
    let passes = |run: &&String| {
        let mut command = Command::new(program);
        command.args(["audit", run, "--data-dir", "data"]).current_dir(folder).stdin(Stdio::null());
        let output = command.output().unwrap();
        if !output.status.success() {
            println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        }
        output.status.success()
    };
    let passed = runs.iter().filter(passes).count();
    println!("audit: {passed} of {} runs are in order", runs.len());
    passed == runs.len() && !runs.is_empty()
}
