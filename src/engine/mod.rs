//! Engines as values: how to launch one, and how to read what it prints.

mod framer;
mod launch;
mod reader;
pub mod script;

pub use framer::{LineFramer, Piece};
pub use launch::{Launch, PoliteSignal};
pub use reader::{LineParser, Reading, StreamReader};
