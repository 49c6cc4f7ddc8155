//! A finished run as one file: what `export` writes, and `audit` and `replay` read.
//!
//! The file is a zip of plain entries whose every byte follows from the run's files; docs/export.md describes the format.

mod contents;
mod error;
mod layout;
mod names;
mod piece;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use contents::Contents;
pub(crate) use contents::{About, CONTENTS};
pub(crate) use error::Error;
pub use names::EVENTS;
pub(crate) use names::{FILES, FOLDERS, is_exported};
pub use piece::Digest;
pub(crate) use piece::Piece;
pub use read::Export;
pub(crate) use read::Flaw;
pub(crate) use write::{Written, write};
