//! The targets fed with their corpus and what is made of it, for as long as is wanted.
//!
//! `FUZZ_SECONDS` says how long each target is fed (one second if it says nothing), `FUZZ_TARGET` names one of them,
//! `FUZZ_SEED` gives other inputs. An input that breaks a target is kept as `fuzz/found/<target>`. `FUZZ_KEPT` names a folder for
//! inputs that took a new way: a later run goes on from them, so that a long run can be made of pieces.

use std::collections::HashSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::changes::{Random, changed};
use super::{Target, targets};

/// No input may take longer, on a machine that is loaded and without optimisation.
const SLOW: Duration = Duration::from_secs(30);
/// Inputs that took a new way and are kept, per target.
const KEPT_MAX: usize = 2_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number")))
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(name)
}

/// Where inputs that took a new way are kept for a later run.
fn kept(target: &Target) -> Option<PathBuf> {
    std::env::var_os("FUZZ_KEPT").map(|kept| Path::new(&kept).join(&target.name))
}

fn inputs_in(place: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(place).map(|entries| entries.flatten().collect());
    let mut paths: Vec<PathBuf> = entries.unwrap_or_else(|_| Vec::new()).iter().map(fs::DirEntry::path).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// The input that each target is at, since when; watched for one that takes too long.
#[derive(Clone, Default)]
struct Watched(Arc<(Mutex<Vec<u8>>, AtomicU64)>);

fn feed(target: &Target, time: Duration, seed: u64) -> Result<(u64, usize), String> {
    let began = Instant::now();
    let watched = Watched::default();
    let watch = watched.clone();
    let name = target.name.clone();
    let watched_name = name.clone();
    std::thread::spawn(move || {
        // Ends with the target, which holds the other end.
        while Arc::strong_count(&watch.0) > 1 {
            std::thread::sleep(Duration::from_millis(200));
            let since = watch.0.1.load(Ordering::Relaxed);
            if since > 0 && began.elapsed() > Duration::from_millis(since) + SLOW {
                let kept = keep(&watched_name, &watch.0.0.lock().unwrap());
                eprintln!("{watched_name}: an input takes longer than {SLOW:?}: {}", kept.display());
                std::process::abort();
            }
        }
    });
    let mut random = Random::new(seed);
    let mut inputs = inputs_in(&folder("corpus").join(&name));
    assert!(!inputs.is_empty(), "{name} has no corpus");
    let kept = kept(target);
    inputs.extend(kept.iter().flat_map(|place| inputs_in(place)));
    let given = inputs.len();
    kept.iter().for_each(|place| fs::create_dir_all(place).unwrap());
    let mut ways = HashSet::new();
    let mut fed = 0;
    while fed < given as u64 || began.elapsed() < time {
        let input = match inputs.get(fed as usize).filter(|_| fed < given as u64) {
            Some(input) => input.clone(),
            None => changed(&mut random, &inputs, target.words),
        };
        watched.0.0.lock().unwrap().clone_from(&input);
        watched.0.1.store(began.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
        let taken = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        watched.0.1.store(0, Ordering::Relaxed);
        let Ok(way) = taken else {
            return Err(format!("{name} is broken by {}", keep(&name, &input).display()));
        };
        fed += 1;
        if ways.insert(way) && fed > given as u64 && inputs.len() < KEPT_MAX {
            if let Some(place) = &kept {
                fs::write(place.join(inputs.len().to_string()), &input).unwrap();
            }
            inputs.push(input);
        }
    }
    Ok((fed, ways.len()))
}

fn keep(name: &str, input: &[u8]) -> PathBuf {
    let path = folder("found").join(name);
    fs::create_dir_all(folder("found")).unwrap();
    fs::write(&path, input).unwrap();
    path
}

#[test]
fn no_foreign_bytes_break_a_parser() {
    let time = Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(1));
    let seed = number("FUZZ_SEED").unwrap_or(0);
    let wanted = std::env::var("FUZZ_TARGET").ok();
    let mut chosen = targets();
    chosen.retain(|target| wanted.as_deref().is_none_or(|name| name == target.name));
    assert!(!chosen.is_empty(), "there is no target {wanted:?}");
    let mut broken = Vec::new();
    for target in chosen {
        match feed(&target, time, seed) {
            Ok((inputs, ways)) => println!("{:<16} {inputs:>9} inputs {ways:>6} ways", target.name),
            Err(told) => broken.push(told),
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_corpus_has_a_target_and_is_small() {
    let mut bytes = 0;
    let targets = targets();
    for entry in fs::read_dir(folder("corpus")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(targets.iter().any(|target| target.name == name), "no target is called {name}");
        bytes += fs::read_dir(&path).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>();
    }
    assert!(bytes < 512 * 1024, "the corpus has {bytes} bytes");
}
