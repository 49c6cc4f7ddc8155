//! The steps that a run is made of, each done barely: what cannot be had for less on this machine.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bare;
use crate::figure::Figure;
use crate::machine;
use crate::numbers::{median, quantile};
use crate::setup::{Setup, timed};

pub fn floor(setup: &Setup<'_>) -> Vec<Figure> {
    let rounds = setup.count(100, 30);
    let folder = setup.folder.as_path();
    let figure = |what: &str, times: Vec<f64>| {
        let fastest = format!("the fastest tenth within {:.2} ms", quantile(&times, 0.1));
        Figure::new(what, "ms", median(&times)).note(fastest)
    };
    let mut start = Command::new(setup.program);
    start.arg("--version").stdin(Stdio::null()).stdout(Stdio::null());
    let script = setup.script("noop");
    vec![
        figure("sh with the trivial script", timed(rounds, || machine::spawn(&script))),
        figure(
            "the program started, to print its version",
            timed(rounds, || assert!(start.status().unwrap().success())),
        ),
        figure("fdatasync of an append of 4 KiB", machine::appends(folder, rounds)),
        figure("a commit of sled with its fdatasync", sled_commits(folder, rounds)),
        figure("a folder with 20 new files", new_files(folder, rounds, false)),
        figure("the same and a syncfs", new_files(folder, rounds, true)),
    ]
    .into_iter()
    .chain(bare::steps_of_a_run(setup, rounds))
    .chain([bare::hits(folder, setup.count(100, 20)), bare::events(setup)])
    .collect()
}

/// A commit like that of a run's step: an event, a row and a mark, then the flush and what it leaves to the system.
fn sled_commits(folder: &Path, rounds: usize) -> Vec<f64> {
    let place = folder.join("sled");
    let db = sled::Config::new().path(&place).flush_every_ms(None).open().unwrap();
    let file = File::open(place.join("db")).unwrap();
    let mut at = 0_u64;
    timed(rounds, || {
        at += 1;
        let mut batch = sled::Batch::default();
        batch.insert([&b"event"[..], &at.to_be_bytes()].concat(), vec![b'x'; 1_000]);
        batch.insert([&b"row"[..], &at.to_be_bytes()].concat(), vec![b'x'; 1_500]);
        batch.insert([&b"open"[..], &at.to_be_bytes()].concat(), vec![]);
        db.apply_batch(batch).unwrap();
        db.flush().unwrap();
        file.sync_data().unwrap();
    })
}

fn new_files(folder: &Path, rounds: usize, sync: bool) -> Vec<f64> {
    let place = File::open(folder).unwrap();
    timed(rounds, || {
        let new = tempfile::tempdir_in(folder).unwrap().keep();
        (0..20).for_each(|at| fs::write(new.join(at.to_string()), [b'x'; 400]).unwrap());
        if sync {
            rustix::fs::syncfs(place.as_fd()).unwrap();
        }
    })
}
