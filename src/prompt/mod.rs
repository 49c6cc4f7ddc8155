//! What an engine is told: the skill's prompt template filled in, and the contract how to answer.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod contract;
mod render;

pub use render::{TemplateFailed, Values, render, template};
