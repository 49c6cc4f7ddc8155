//! Script skills (Skill Protocol 1.0): one JSON object in, one out, progress on stderr; no model.

mod answer;
mod answered;
mod launch;
mod parser;

pub use answer::Answer;
pub(crate) use answer::read_answer;
pub(crate) use launch::launch;
pub(crate) use launch::{EngineWords, Helper, Invocation, launch_helper};
pub(crate) use parser::{ScriptParser, is_progress};

/// The protocol spoken with scripts.
pub(crate) const PROTOCOL: &str = "skill-protocol/1.0";
/// Version of the parser that reads scripts.
pub(crate) const PARSER_VERSION: &str = "script/1";
/// Most bytes a script may write to standard output.
pub(crate) const STDOUT_MAX: u64 = 10 * 1024 * 1024;
/// Longest line of standard error that is looked at for progress.
pub const LINE_MAX: usize = 64 * 1024;
