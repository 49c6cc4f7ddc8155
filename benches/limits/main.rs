//! How close the service comes to the limits of its machine, each measured in the same run.
//!
//! Real server process, real sockets, real scripts. Absolute numbers drift with the machine; read the ratios.
//!
//! `cargo bench --bench limits [-- WORD…]`: the names of parts choose them, `quick` takes smaller counts.
//! `BENCH_PROGRAM=PATH` measures another program in turn with the built one (with the word `instead`: alone).
//! `BENCH_DIR=FOLDER` puts the data there and not beside the build.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

mod bare;
mod clients;
mod deletion;
mod figure;
mod floor;
mod followed;
mod killed;
mod lines;
mod lists;
mod machine;
mod overload;
mod process;
mod setup;
mod trivial;
mod waiting;

#[path = "../support/client.rs"]
mod client;
#[path = "../support/numbers.rs"]
mod numbers;
#[path = "../support/service.rs"]
mod service;
#[path = "../support/skills.rs"]
mod skills;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::figure::Figure;
use crate::setup::Setup;

/// Tells this program to be the script that writes lines, see [`lines::emit`].
const EMIT: &str = "--emit";
/// Tells this program to be an engine that writes messages, see [`followed::speak`].
const SPEAK: &str = "--speak";

struct Part {
    name: &'static str,
    /// Takes long enough, and differs enough, to be measured once for each program.
    once: bool,
    measure: fn(&Setup<'_>) -> Vec<Figure>,
}

/// In this order, because the last ones leave the most files.
const PARTS: [Part; 14] = [
    Part { name: "floor", once: true, measure: floor::floor },
    Part { name: "idle", once: false, measure: trivial::idle },
    Part { name: "trivial", once: false, measure: trivial::one_by_one },
    Part { name: "burst", once: false, measure: trivial::burst },
    Part { name: "lines", once: false, measure: lines::lines },
    Part { name: "live", once: false, measure: lines::live },
    Part { name: "followed", once: false, measure: followed::followed },
    Part { name: "readers", once: false, measure: clients::readers },
    Part { name: "cached", once: false, measure: clients::cached },
    Part { name: "overload", once: true, measure: overload::overload },
    Part { name: "deletion", once: true, measure: deletion::deletion },
    Part { name: "lists", once: true, measure: lists::lists },
    Part { name: "waiting", once: true, measure: waiting::waiting },
    Part { name: "killed", once: true, measure: killed::killed },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [word, lines] if word == EMIT => return lines::emit(lines.parse().unwrap()),
        [word, lines] if word == SPEAK => return followed::speak(lines.parse().unwrap()),
        _ => {}
    }
    // `cargo test --benches` asks for a list of tests: there are none.
    if words.iter().any(|word| word == "--list") {
        return;
    }
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let (flags, chosen): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| ["quick", "instead"].contains(word));
    let unknown = chosen.iter().find(|word| !PARTS.iter().any(|part| part.name == **word));
    if let Some(word) = unknown {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        eprintln!("there is no part {word:?}; there are {}, and the words quick and instead", names.join(", "));
        std::process::exit(2);
    }

    let built = PathBuf::from(env!("CARGO_BIN_EXE_skill-runner"));
    let other = std::env::var_os("BENCH_PROGRAM").map(PathBuf::from);
    let (before, now) = match other {
        Some(other) if flags.contains(&"instead") => (None, other),
        other => (other, built),
    };
    let base = std::env::var_os("BENCH_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    // Beside the build, not in a memory file system: the disk is part of what is measured. Everything stays until the
    // end, because creating files is slow after many were deleted.
    let folder = tempfile::tempdir_in(base).unwrap();
    let bench = Bench { folder: folder.path(), quick: flags.contains(&"quick") };
    println!("{}", figure::head(before.is_some()));
    for part in PARTS.iter().filter(|part| chosen.is_empty() || chosen.contains(&part.name)) {
        bench.part(part, before.as_deref(), &now);
    }
    let began = Instant::now();
    drop(folder);
    eprintln!("removed the data in {:.1} s", began.elapsed().as_secs_f64());
}

struct Bench<'a> {
    folder: &'a Path,
    quick: bool,
}

impl Bench<'_> {
    /// Measures a part and prints its figures.
    fn part(&self, part: &Part, before: Option<&Path>, now: &Path) {
        machine::warn_of_disturbances(self.folder);
        let Some(before) = before else {
            return self.round(part, now).iter().for_each(|figure| println!("{}", figure.row(None)));
        };
        // Whatever drifts in one direction meets both alike.
        let order = if part.once { vec![before, now] } else { vec![before, now, now, before] };
        let (mut of_before, mut of_now) = (Vec::new(), Vec::new());
        for program in order {
            let figures = self.round(part, program);
            if program == before { of_before.push(figures) } else { of_now.push(figures) }
        }
        let (of_before, of_now) = (Figure::medians(&of_before), Figure::medians(&of_now));
        of_now.iter().zip(&of_before).for_each(|(now, before)| println!("{}", now.row(Some(before))));
    }

    fn round(&self, part: &Part, program: &Path) -> Vec<Figure> {
        let folder = tempfile::tempdir_in(self.folder).unwrap().keep();
        (part.measure)(&Setup::new(program, folder, self.quick))
    }
}
