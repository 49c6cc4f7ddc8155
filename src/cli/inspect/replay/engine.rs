//! `replay --as-engine`: this program acts as an engine and writes the recorded output of a turn.

use std::io::{Read, Write};
use std::path::Path;

use serde_json::Value;

use crate::bounded;
use crate::cli::failure::Failure;
use crate::files::read_followed;

/// Plays a recorded turn of an engine: its standard output, its standard error, its end. Of what the engine would have
/// been given only --version is answered.
pub(crate) fn pose(case: &Path, arguments: &[String]) -> Result<(), Failure> {
    if arguments.iter().any(|argument| argument == "--version") {
        return say(b"replay 1.0.0\n");
    }
    let recorded = |name: &str| read(&case.join(name));
    let turn: Value = bounded::json::from_slice(&recorded("exit.json")?).map_err(Failure::broken("read exit.json"))?;
    // As the engine did: take the whole prompt, then speak.
    let mut prompt = Vec::new();
    std::io::stdin().read_to_end(&mut prompt).map_err(Failure::broken("read the prompt"))?;
    std::io::stderr().write_all(&recorded("stderr.raw")?).map_err(Failure::broken("write to standard error"))?;
    say(&recorded("stdout.raw")?)?;
    end_like(&turn["exit"])
}

fn say(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::broken("write to standard output"))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_followed(path).map_err(Failure::broken(format!("read {}", path.display())))
}

/// End with the recorded exit code, or by the recorded signal.
fn end_like(exit: &Value) -> Result<(), Failure> {
    let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
    if let Some(code) = number(&exit["code"]) {
        std::process::exit(code);
    }
    let signal = number(&exit["signal"]).and_then(rustix::process::Signal::from_named_raw);
    match signal {
        Some(signal) => rustix::process::kill_process(rustix::process::getpid(), signal)
            .map_err(|error| Failure::Broken(format!("end by the recorded signal: {error}"))),
        None => Err(Failure::Broken("exit.json names neither a code nor a signal".to_owned())),
    }
}
