//! Engines as values: how to launch one, and how to read what it prints.

mod launch;

pub use launch::{Launch, PoliteSignal};
