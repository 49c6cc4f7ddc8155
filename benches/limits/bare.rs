//! The work of the service that cannot be left out, done barely: no HTTP, no checks, no proof, one thing after the other.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::figure::Figure;
use crate::machine;
use crate::numbers::{median, ms, quantile};
use crate::process::cpu;
use crate::setup::{Setup, at_once, timed};

/// A database as the service has it.
struct Store {
    db: sled::Db,
    file: File,
}

impl Store {
    fn new(place: &Path) -> Store {
        let db = sled::Config::new().path(place).cache_capacity(4 << 20).flush_every_ms(None).open().unwrap();
        let file = File::open(place.join("db")).unwrap();
        Store { db, file }
    }

    fn commit(&self, batch: sled::Batch) {
        self.db.apply_batch(batch).unwrap();
        self.db.flush().unwrap();
        self.file.sync_data().unwrap();
    }
}

/// Adds what a step of a run writes: its events and its row.
fn step(batch: &mut sled::Batch, run: u128, seq: u64, events: usize, row: usize) {
    batch.insert([b"e", &run.to_be_bytes()[..], &seq.to_be_bytes()].concat(), vec![b'x'; events]);
    batch.insert([b"r", &run.to_be_bytes()[..]].concat(), vec![b'x'; row]);
}

/// Adds what is written once for a run: how it is found.
fn marks(batch: &mut sled::Batch, run: u128) {
    batch.insert([b"q", &run.to_be_bytes()[..]].concat(), run.to_be_bytes().to_vec());
    batch.insert([b"o", &run.to_be_bytes()[..]].concat(), vec![]);
}

/// An id as runs have them: ordered by time.
fn id(at: u64) -> u128 {
    u128::from(at) << 80 | u128::from(at.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A trivial run: its folders and files, three commits, its process, one sync of the files.
pub fn steps_of_a_run(setup: &Setup<'_>, rounds: usize) -> Vec<Figure> {
    let runs = setup.folder.join("bare-runs");
    fs::create_dir(&runs).unwrap();
    let (store, place) = (Store::new(&setup.folder.join("bare-store")), File::open(&runs).unwrap());
    let script = setup.script("noop");
    let mut at = 0;
    let mut one = || {
        at += 1;
        let (run, folder) = (id(at), runs.join(at.to_string()));
        fs::create_dir(&folder).unwrap();
        ["input.json", "skill.json"].iter().for_each(|name| write(&folder.join(name), 300));
        let mut batch = sled::Batch::default();
        step(&mut batch, run, 1, 900, 1_300);
        marks(&mut batch, run);
        store.commit(batch);
        ["artifacts", "logs", "raw", "result"].iter().for_each(|name| fs::create_dir(folder.join(name)).unwrap());
        ["logs/stdout.txt", "logs/stderr.txt"].iter().for_each(|name| write(&folder.join(name), 27));
        let mut batch = sled::Batch::default();
        step(&mut batch, run, 2, 700, 1_500);
        store.commit(batch);
        machine::spawn(&script);
        let last = ["raw/text", "raw/json", "result/result.json", "result/validation.json", "manifest.json"];
        last.iter().for_each(|name| write(&folder.join(name), 300));
        rustix::fs::syncfs(place.as_fd()).unwrap();
        let mut batch = sled::Batch::default();
        step(&mut batch, run, 3, 3_000, 1_700);
        store.commit(batch);
        write(&folder.join("logs/events.jsonl"), 4_600);
    };
    timed(5, &mut one);
    let used = || {
        let (own, children) = cpu(std::process::id());
        own + children
    };
    let before = used();
    let times = timed(rounds, one);
    let processor = ms(used() - before) / rounds as f64;
    vec![
        Figure::new("the steps of a trivial run, barely", "ms", median(&times))
            .note(format!("the fastest tenth within {:.2} ms", quantile(&times, 0.1))),
        Figure::new("processor time of these steps", "ms", processor),
    ]
}

/// A file as the service writes them: whole or not at all.
fn write(path: &Path, bytes: usize) {
    let new = path.with_extension("tmp");
    fs::write(&new, vec![b'x'; bytes]).unwrap();
    fs::rename(&new, path).unwrap();
}

/// Cached hits by 32 threads: the events and rows of each, in commits that they share, and its sealed log.
pub fn hits(folder: &Path, each: usize) -> Figure {
    const CLIENTS: usize = 32;
    let (store, logs) = (Store::new(&folder.join("bare-hits")), folder.join("bare-logs"));
    fs::create_dir(&logs).unwrap();
    let (ask, asked) = mpsc::channel::<(u64, mpsc::Sender<()>)>();
    let writer = std::thread::spawn(move || {
        while let Ok(first) = asked.recv() {
            let group: Vec<_> = std::iter::once(first).chain(asked.try_iter()).collect();
            let mut batch = sled::Batch::default();
            for (at, _) in &group {
                step(&mut batch, id(*at), 1, 2_850, 1_500);
                marks(&mut batch, id(*at));
            }
            store.commit(batch);
            group.into_iter().for_each(|(_, answer)| answer.send(()).unwrap());
        }
    });
    let next = std::sync::atomic::AtomicU64::new(0);
    let seconds = at_once(CLIENTS, || {
        let (answer, answered) = mpsc::channel();
        for _ in 0..each {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            ask.send((at, answer.clone())).unwrap();
            answered.recv().unwrap();
            write(&logs.join(at.to_string()), 2_850);
        }
    });
    drop(ask);
    writer.join().unwrap();
    Figure::new("cached hits, barely: commit and sealed log", "/s", (CLIENTS * each) as f64 / seconds)
}

/// Lines that become an event each: the text of the event, its hash, its commit, the sealed log.
pub fn events(setup: &Setup<'_>) -> Figure {
    const BATCH: usize = 640 * 1024;
    const VALUE: usize = 6 * 1024;
    let store = Store::new(&setup.folder.join("bare-events"));
    let mut sealed = tempfile::tempfile_in(&setup.folder).unwrap();
    let mut raw = tempfile::tempfile_in(&setup.folder).unwrap();
    let began = Instant::now();
    let mut command = Command::new("sh");
    command.arg(setup.script("progress")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut text, mut lines, mut hash, mut seq) = (Vec::new(), Vec::new(), [0; 32], 0_u64);
    let mut commit = |text: &mut Vec<u8>, lines: &mut Vec<u8>| {
        raw.write_all(lines).unwrap();
        raw.sync_data().unwrap();
        let mut batch = sled::Batch::default();
        for value in text.chunks(VALUE) {
            seq += 1;
            batch.insert([b"e", &[7; 16][..], &seq.to_be_bytes()].concat(), value);
        }
        batch.insert(b"row", vec![b'x'; 1_500]);
        store.commit(batch);
        sealed.write_all(text).unwrap();
        text.clear();
        lines.clear();
    };
    for line in BufReader::with_capacity(64 * 1024, child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        let start = text.len();
        // As long as an event of such a line.
        write!(text, "{{{:>340}\"message\":\"{line}\"}}", "").unwrap();
        hash = Sha256::new().chain_update(hash).chain_update(&text[start..]).finalize().into();
        text.push(b'\n');
        lines.extend_from_slice(line.as_bytes());
        lines.push(b'\n');
        if text.len() >= BATCH {
            commit(&mut text, &mut lines);
        }
    }
    commit(&mut text, &mut lines);
    assert!(child.wait().unwrap().success() && hash != [0; 32]);
    Figure::new("lines as events, barely", "lines/s", Setup::LINES as f64 / began.elapsed().as_secs_f64())
}
