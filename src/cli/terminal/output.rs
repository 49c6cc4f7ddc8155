//! Writes to standard output; a closed pipe ends the command without an error message.
//!
//! On a terminal, nothing but this program's own colours controls it, whoever wrote the text. Elsewhere bytes are written as
//! they are.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::LazyLock;

use serde::Serialize;

use crate::cli::failure::Failure;
use crate::cli::terminal::look::harmless_but_colours;

static ON_TERMINAL: LazyLock<bool> = LazyLock::new(|| io::stdout().is_terminal());

/// Writes whole text to standard output, or to a buffer before it.
pub(crate) fn bytes(out: &mut impl Write, bytes: &[u8]) -> Result<(), Failure> {
    if *ON_TERMINAL {
        let text = harmless_but_colours(&String::from_utf8_lossy(bytes));
        return out.write_all(text.as_bytes()).map_err(not_written);
    }
    out.write_all(bytes).map_err(not_written)
}

pub(crate) fn flushed(out: &mut impl Write) -> Result<(), Failure> {
    out.flush().map_err(not_written)
}

fn not_written(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Broken(format!("write the output: {error}")),
    }
}

/// Writes text and an end of line to standard output.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    bytes(&mut io::stdout().lock(), format!("{text}\n").as_bytes())
}

/// Writes one indented JSON document to standard output.
pub(crate) fn json(document: &impl Serialize) -> Result<(), Failure> {
    line(&serde_json::to_string_pretty(document).map_err(Failure::broken("write the output"))?)
}
