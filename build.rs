//! Builds the shim's program, which the library carries inside. It is a program without a C library, so it is built by rustc
//! alone, with options that no profile of cargo has.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim/src");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
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
        if let Some(linker) = env::var_os("RUSTC_LINKER") {
            let mut option = OsString::from("linker=");
            option.push(linker);
            rustc.arg("-C").arg(option);
        }
        rustc.args(["-nostartfiles", "-nostdlib", "-static", "-no-pie"].map(|option| format!("-Clink-arg={option}")))
    })
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
