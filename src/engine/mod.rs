//! Engines as values: how to launch one, and how to read what it prints.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod framer;
mod launch;
mod reader;
pub mod script;

pub use framer::{LineFramer, Piece};
pub use launch::{Launch, PoliteSignal};
pub use reader::{LineParser, Reading, StreamReader};
