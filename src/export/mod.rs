//! A finished run as one file: what `export` writes, and `audit` and `replay` read.
//!
//! The file is a zip of plain entries whose every byte follows from the run's files; docs/export.md tells the format.

mod contents;
mod layout;
mod piece;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use contents::{About, CONTENTS, Contents, FORMAT, Listed};
pub use piece::{Digest, Piece};
pub use read::{Export, Flaw};
pub use write::{Written, write};

use std::io;

/// The event log's name in a run's folder.
pub const EVENTS: &str = "logs/events.jsonl";

/// Files of a run that are exported where they are there, besides everything in [`FOLDERS`].
pub const FILES: [&str; 10] = [
    EVENTS,
    "input.json",
    "logs/prompt.txt",
    "logs/pty.txt",
    "logs/stderr.txt",
    "logs/stdout.txt",
    "manifest.json",
    "result/result.json",
    "result/validation.json",
    "skill.json",
];

/// Folders of a run that are exported with all their files.
pub const FOLDERS: [&str; 2] = ["artifacts", "raw"];

/// An export could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be part of an export.
    #[error("{name:?} cannot be exported: {reason}")]
    Name {
        /// Its path.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A file was written to meanwhile.
    #[error("{name:?} was changed while it was exported")]
    Changed {
        /// Its path.
        name: String,
    },
    /// A file operation failed.
    #[error("{doing}")]
    Io {
        /// What was tried.
        doing: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl Error {
    fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

/// Why a name has no place in an export, or nothing. Whoever unpacks one gets files below one folder, and only those a
/// run has.
fn name_objection(name: &str) -> Option<&'static str> {
    let in_folder = FOLDERS.iter().any(|folder| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')));
    let objections = [
        (name.len() > usize::from(u16::MAX), "its path is too long"),
        (name.contains('\0'), "it contains a NUL character"),
        (name.split('/').any(|part| part.is_empty() || part == "." || part == ".."), "it is no path in a folder"),
        (!in_folder && !FILES.contains(&name), "it is none of the files that an export has"),
    ];
    objections.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}
