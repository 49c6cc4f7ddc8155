//! The prompt for an engine: the skill's template filled in, followed by the completion contract.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub(crate) mod contract;
mod render;
pub(crate) mod sections;

pub use render::TemplateFailed;
pub(crate) use render::{PROMPT_MAX, Values, evaluate, has_contract, is_built_in, render, template};
