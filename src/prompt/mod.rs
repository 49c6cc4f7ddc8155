//! The prompt for an engine: the skill's template filled in, followed by the completion contract.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub(crate) mod contract;
mod render;

pub(crate) use render::template;
pub(crate) use render::{TemplateFailed, Values, render};
