//! A fresh folder with the skills, and the program that is to serve it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::numbers::ms;
use crate::service::Service;
use crate::skills;

pub struct Setup<'a> {
    pub program: &'a Path,
    pub folder: PathBuf,
    pub quick: bool,
}

impl Setup<'_> {
    pub const LINES: usize = 100_000;
    pub const STEPS: usize = 4_000;

    /// Writes the skills.
    pub fn new(program: &Path, folder: PathBuf, quick: bool) -> Setup<'_> {
        let setup = Setup { program, folder, quick };
        let skills = setup.folder.join("skills");
        let step = "%d%% step %d of a run that reports each step";
        let emitter = std::env::current_exe().unwrap();
        skills::script(&skills, "noop", "");
        skills::script(&skills, "plain", &skills::lines(Self::LINES, "line %d %d of a run that has a lot to say"));
        skills::script(&skills, "progress", &skills::lines(Self::LINES, step));
        skills::script(&skills, "million", &skills::lines(setup.million(), step));
        skills::script(&skills, "emit", &format!("'{}' {} {}", emitter.display(), super::EMIT, setup.count(250, 50)));
        // Waits for its readers.
        let wait = "while [ ! -e go ]; do sleep 0.05; done";
        skills::script(&skills, "live", &format!("{wait}\n{}", skills::lines(Self::STEPS, step)));
        setup
    }

    pub fn count(&self, usual: usize, quick: usize) -> usize {
        if self.quick { quick } else { usual }
    }

    /// Lines of the longest run.
    pub fn million(&self) -> usize {
        self.count(1_000_000, 100_000)
    }

    pub fn serve(&self, settings: &[(&str, &str)]) -> Service {
        Service::start(self.program, &self.folder, settings)
    }

    pub fn script(&self, skill: &str) -> PathBuf {
        self.folder.join("skills").join(skill).join("scripts/run.sh")
    }
}

/// Milliseconds of each round.
pub fn timed(rounds: usize, mut action: impl FnMut()) -> Vec<f64> {
    let time = |_| {
        let began = Instant::now();
        action();
        ms(began.elapsed())
    };
    (0..rounds).map(time).collect()
}

/// Does the work in this many threads at once; seconds until all are done.
pub fn at_once(threads: usize, work: impl Fn() + Sync) -> f64 {
    let began = Instant::now();
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(&work))));
    began.elapsed().as_secs_f64()
}

/// Waits until something is so.
pub fn until(what: &str, longest: Duration, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + longest;
    while !so() {
        assert!(Instant::now() < deadline, "not within {longest:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
