//! Script skills (Skill Protocol 1.0): one JSON object in, one out, progress on stderr; no model.

mod answer;
mod launch;
mod progress;

pub use answer::{Answer, AnswerError, read_answer};
pub use launch::{EngineWords, Helper, Invocation, launch, launch_helper};
pub use progress::ProgressParser;

/// The protocol spoken with scripts.
pub const PROTOCOL: &str = "skill-protocol/1.0";
/// Version of the parser that reads scripts.
pub const PARSER_VERSION: &str = "script/1";
/// Most bytes a script may write to standard output.
pub const STDOUT_MAX: u64 = 10 * 1024 * 1024;
/// Longest line of standard error that is looked at for progress.
pub const LINE_MAX: usize = 64 * 1024;
