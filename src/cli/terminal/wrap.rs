//! Standard output for people: long lines are broken between words where a terminal is too narrow for them.

use std::io::{self, IsTerminal};

use crate::cli::failure::Failure;
use crate::cli::terminal::fold::{folded, wrapped};
use crate::cli::terminal::look::columns;
use crate::cli::terminal::output;

/// Writes a line to standard output. What a terminal has no room for goes to lines of its own, `hang` columns to the right.
pub(crate) fn line(text: &str, hang: usize) -> Result<(), Failure> {
    let stdout = io::stdout();
    if stdout.is_terminal() { output::line(&wrapped(text, columns(&stdout), hang)) } else { output::line(text) }
}

/// Writes the lines of a text in the same way.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let stdout = io::stdout();
    if stdout.is_terminal() { output::line(&folded(text, columns(&stdout))) } else { output::line(text) }
}
