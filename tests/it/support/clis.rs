//! The real CLIs, at the versions their adapters were measured with, installed once per machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use skill_runner::engine::{self, Install};

use super::left_out;

/// The engines whose CLIs can be had.
pub const NAMES: [&str; 5] = ["codex", "gemini", "opencode", "claude", "qwen"];

/// Whether `SKILL_RUNNER_TEST_CLIS=off` leaves this test out. It is then said past the harness, which shows the output of
/// failed tests alone.
pub fn left_out(test: &str) -> bool {
    let off = std::env::var_os("SKILL_RUNNER_TEST_CLIS").is_some_and(|value| value == "off");
    if off {
        left_out::tell("SKILL_RUNNER_TEST_CLIS=off", test);
    }
    off
}

/// The folder that holds the CLIs' `node_modules`. Without npm and its registry this fails: a test that passes because
/// there was nothing to test would be worse.
pub fn prefix() -> PathBuf {
    let cache = cache();
    fs::create_dir_all(&cache).unwrap();
    let name = NAMES.map(|engine| format!("{engine}-{}", install(engine).version)).join("_");
    // Held until the end of this function, by one test of one process; the others find the work done.
    let lock = File::create(cache.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let prefix = cache.join(&name);
    if !prefix.exists() {
        // The name is given only to what is whole, so what was cut short is done again.
        let unfinished = cache.join(format!("{name}.unfinished"));
        let _ = fs::remove_dir_all(&unfinished);
        install_into(&unfinished);
        fs::rename(&unfinished, &prefix).unwrap();
    }
    prefix
}

pub fn cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("SKILL_RUNNER_TEST_CLIS").unwrap_or_else(|| {
        let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        caches.expect("neither SKILL_RUNNER_TEST_CLIS, XDG_CACHE_HOME nor HOME is set").join("skill-runner/test-clis")
    })
}

fn install(name: &str) -> Install {
    engine::adapter_named(name).and_then(|adapter| adapter.install).unwrap()
}

fn install_into(prefix: &Path) {
    let packages = NAMES.map(|name| format!("{}@{}", install(name).package, install(name).version));
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]).arg(prefix).args(&packages);
    let done = npm.output().unwrap_or_else(|error| panic!("the tests of the real CLIs need npm: {error}"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{packages:?} could not be installed, which these tests need:\n{said}");
    for name in NAMES {
        let program = install(name).program_in(prefix.to_str().unwrap());
        let file = program.last().unwrap();
        assert!(Path::new(file).exists(), "the package of {name} brought no {file}");
    }
}
