//! Builds what the library carries inside: the demo skills, the user interface, and the shim's program. The latter is a program without a C library, so it is built by rustc
//! alone, with options that no profile of cargo has.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use flate2::{Compression, GzBuilder};

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim/src");
    println!("cargo::rerun-if-changed=skills");
    println!("cargo::rerun-if-changed=ui");
    match link_small().and_then(|()| build()).and_then(|()| list_builtin_skills()).and_then(|()| list_ui_files()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

/// Asks the linker for a smaller release, for the machine that builds it. The places that the loader moves become a list of bits,
/// 1 MB less; the loader of glibc can read that from 2.36 on. Functions of the same code become one, 0.3 MB less, if this linker
/// can do so: lld can, which rustc takes for x86_64 by itself, and GNU ld cannot.
fn link_small() -> Result<(), String> {
    let (target, host, profile) = (variable("TARGET")?, variable("HOST")?, variable("PROFILE")?);
    if target != host || profile != "release" || !target.to_string_lossy().ends_with("-linux-gnu") {
        return Ok(());
    }
    if glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if links_with(SAME_CODE_ONCE)? {
        println!("cargo::rustc-link-arg-bins={SAME_CODE_ONCE}");
    }
    Ok(())
}

/// The linker's option that keeps functions of the same code once. Rust does not promise that functions have addresses of their own.
const SAME_CODE_ONCE: &str = "-Wl,--icf=all";

/// Whether an empty program can be linked with this option as the release will be.
fn links_with(option: &str) -> Result<bool, String> {
    let out = PathBuf::from(variable("OUT_DIR")?);
    let source = out.join("empty.rs");
    fs::write(&source, "fn main() {}").map_err(|error| format!("write {}: {error}", source.display()))?;
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.arg(&source).arg("-o").arg(out.join("empty")).arg(format!("-Clink-arg={option}"));
    rustc.args(env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().split('\x1f').filter(|flag| !flag.is_empty()));
    add_linker(&mut rustc);
    let output = rustc.output().map_err(|error| format!("rustc could not be started: {error}"))?;
    Ok(output.status.success())
}

/// Links with the linker that the project's configuration names, if it names one.
fn add_linker(rustc: &mut Command) {
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
}

/// The version of the machine's glibc; none if it has another C library or does not tell.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

fn build() -> Result<(), String> {
    let out = variable("OUT_DIR")?;
    let out = Path::new(&out);
    let library = out.join("libskill_runner_shim.rlib");
    let program = out.join("skill-run-shim");
    compile("lib.rs", &library, |rustc| rustc.args(["--crate-type=rlib", "--crate-name=skill_runner_shim"]))?;
    compile("program.rs", &program, |rustc| {
        let mut known = OsString::from("skill_runner_shim=");
        known.push(&library);
        rustc.args(["--crate-type=bin", "--crate-name=skill_run_shim", "--extern"]).arg(known);
        add_linker(rustc);
        rustc.args(["-nostartfiles", "-nostdlib", "-static", "-no-pie"].map(|option| format!("-Clink-arg={option}")))
    })
}

/// Lists the files of the demo skills for `src/registry/builtin.rs`.
fn list_builtin_skills() -> Result<(), String> {
    let skills = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("skills");
    let mut rows = String::new();
    for skill in entries(&skills)? {
        let Some(id) = skill.file_name().and_then(|name| name.to_str()).filter(|id| id.starts_with("demo-")) else {
            continue;
        };
        let mut files = Vec::new();
        find_files(&skill, &mut files)?;
        for file in files {
            let path = file.strip_prefix(&skill).map_err(|error| error.to_string())?;
            rows.push_str(&format!("    ({id:?}, {path:?}, include_bytes!({file:?})),\n"));
        }
    }
    let place = Path::new(&variable("OUT_DIR")?).join("builtin_skills.rs");
    let list = format!("/// Every file of the demo skills, by skill.\nconst BUILTIN_SKILLS: &[File] = &[\n{rows}];\n");
    fs::write(&place, list).map_err(|error| format!("write {}: {error}", place.display()))
}

/// Packs and lists the files of the user interface for `src/http/ui/files.rs`.
fn list_ui_files() -> Result<(), String> {
    let ui = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("ui");
    let out = PathBuf::from(variable("OUT_DIR")?);
    let mut files = Vec::new();
    find_files(&ui, &mut files)?;
    let mut rows = String::new();
    // Types are for the checker, not for browsers.
    let for_checker = |file: &Path| ["d.ts", "jsconfig.json"].iter().any(|end| file.to_string_lossy().ends_with(end));
    for (number, file) in files.into_iter().filter(|file| !for_checker(file)).enumerate() {
        let path = file.strip_prefix(&ui).map_err(|error| error.to_string())?;
        let packed = out.join(format!("ui_file_{number}.gz"));
        pack(&file, &packed).map_err(|error| format!("pack {}: {error}", file.display()))?;
        rows.push_str(&format!("    ({path:?}, include_bytes!({packed:?})),\n"));
    }
    let place = out.join("ui_files.rs");
    let list = format!(
        "/// Every file of the user interface, packed by gzip.\nconst UI_FILES: &[(&str, &[u8])] = &[\n{rows}];\n"
    );
    fs::write(&place, list).map_err(|error| format!("write {}: {error}", place.display()))
}

/// Packs a file; the same content always gives the same bytes.
fn pack(file: &Path, packed: &Path) -> io::Result<()> {
    let mut packer = GzBuilder::new().write(Vec::new(), Compression::best());
    packer.write_all(&fs::read(file)?)?;
    fs::write(packed, packer.finish()?)
}

fn find_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in entries(folder)? {
        if entry.is_dir() && entry.file_name().is_some_and(|name| name != "__pycache__") {
            find_files(&entry, found)?;
        } else if entry.is_file() {
            found.push(entry);
        }
    }
    Ok(())
}

/// What is in a folder, in the order of names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let listed =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    let mut listed: Vec<PathBuf> = listed.map_err(|error| format!("list {}: {error}", folder.display()))?;
    listed.sort();
    Ok(listed)
}

fn compile(source: &str, result: &Path, more: impl FnOnce(&mut Command) -> &mut Command) -> Result<(), String> {
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.arg(Path::new("shim/src").join(source)).arg("-o").arg(result).arg("--target").arg(variable("TARGET")?);
    rustc.args(["--edition=2024", "--cap-lints=allow", "-Cpanic=abort", "-Copt-level=s", "-Crelocation-model=static"]);
    rustc.args(["-Cstrip=symbols", "-Ccodegen-units=1"]);
    more(&mut rustc);
    let output = rustc.output().map_err(|error| format!("rustc could not be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("the shim's {source} could not be compiled: {}", said.replace('\n', " | ")))
}

fn variable(name: &str) -> Result<OsString, String> {
    env::var_os(name).ok_or_else(|| format!("cargo does not set {name}"))
}
