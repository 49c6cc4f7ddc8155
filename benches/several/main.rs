//! What PostgreSQL costs beside the embedded store and beside bare SQL, and what several services make of one machine.
//!
//! Each figure is a ratio of two things that are measured in turn in the same run, on a server of its own on a scratch folder.
//!
//! `cargo bench --bench several [-- WORD…]`: `appends`, `one`, `nodes`, `wakes`, `cost` choose parts, `quick` takes smaller counts.
//! `BENCH_PROGRAM=PATH` measures another program than the built one, `BENCH_DIR=FOLDER` puts the data there.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

mod appends;
mod cost;
mod nodes;
mod wakes;

#[path = "../support/client.rs"]
#[expect(dead_code, reason = "the other benchmarks need more of it")]
mod client;
#[path = "../../tests/it/support/left_out.rs"]
mod left_out;
#[path = "../support/numbers.rs"]
mod numbers;
#[path = "../../tests/it/support/postgres.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod postgres;
#[path = "../support/service.rs"]
#[expect(dead_code, reason = "the other benchmarks need more of it")]
mod service;
#[path = "../support/skills.rs"]
#[expect(dead_code, reason = "the other benchmarks need more of it")]
mod skills;

use std::path::PathBuf;
use std::time::Duration;

use crate::numbers::median;

/// How long the server may take to start.
const LONG: Duration = Duration::from_secs(60);

/// A part by its name.
type Part = (&'static str, fn(&Bench));

/// Where and what is measured.
pub struct Bench {
    program: PathBuf,
    folder: tempfile::TempDir,
    server: postgres::Server,
    quick: bool,
}

impl Bench {
    pub fn count(&self, usual: usize, quick: usize) -> usize {
        if self.quick { quick } else { usual }
    }

    /// A new schema of the server.
    pub fn url(&self) -> String {
        self.server.url(&postgres::fresh())
    }

    /// A fresh folder with the skills.
    pub fn place(&self) -> PathBuf {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap().keep();
        let skills = folder.join("skills");
        let step = "%d%% step %d of a run that reports each step";
        skills::script(&skills, "noop", "");
        skills::script(&skills, "progress", &skills::lines(nodes::LINES, step));
        skills::script(&skills, "waits", "while [ ! -e go ]; do sleep 0.2; done");
        folder
    }

    /// One service with these settings on a fresh folder.
    pub fn serve(&self, settings: &[(&str, &str)]) -> service::Service {
        service::Service::start(&self.program, &self.place(), settings)
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    // `cargo test --benches` asks for a list of tests: there are none.
    if words.iter().any(|word| word == "--list") {
        return;
    }
    if !postgres::installed("the benchmark of several services") {
        return;
    }
    let parts: [Part; 5] = [
        ("appends", appends::appends),
        ("wakes", wakes::wakes),
        ("one", nodes::one),
        ("nodes", nodes::several),
        ("cost", cost::cost),
    ];
    let known = |word: &str| word == "quick" || parts.iter().any(|(name, _)| *name == word);
    if let Some(word) = words.iter().find(|word| !known(word)) {
        eprintln!("there is no part {word:?}; there are {:?} and quick", parts.map(|(name, _)| name));
        std::process::exit(2);
    }
    let base = std::env::var_os("BENCH_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let program = std::env::var_os("BENCH_PROGRAM")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_skill-runner")), PathBuf::from);
    let bench = Bench {
        program,
        folder: tempfile::tempdir_in(base).unwrap(),
        server: postgres::Server::start(&["shared_buffers = 256MB", "max_wal_size = 4GB"]),
        quick: words.iter().any(|word| word == "quick"),
    };
    println!("| what | measured | beside it, in turn | ratio | load |\n| --- | ---: | ---: | ---: | ---: |");
    for (name, part) in parts {
        if words.iter().all(|word| word == "quick") || words.iter().any(|word| word == name) {
            part(&bench);
        }
    }
}

/// Measures two things in turn (A B B A and so on) and prints their medians and the ratio of the first to the second.
pub fn compared(
    what: &str,
    unit: &str,
    other: &str,
    rounds: usize,
    mut one: impl FnMut() -> f64,
    mut two: impl FnMut() -> f64,
) {
    let (mut ones, mut twos) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            ones.push(one());
            twos.push(two());
        } else {
            twos.push(two());
            ones.push(one());
        }
    }
    row(what, unit, other, median(&ones), median(&twos));
}

/// Prints a row of the table.
pub fn row(what: &str, unit: &str, other: &str, one: f64, two: f64) {
    println!("| {what} | {} {unit} | {} {unit} ({other}) | {:.2} | {} |", short(one), short(two), one / two, load());
}

/// Prints a figure that is beside nothing.
pub fn alone(what: &str, unit: &str, value: f64) {
    println!("| {what} | {} {unit} | | | {} |", short(value), load());
}

fn short(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn load() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.split(' ').next().unwrap_or_default().to_owned()
}
