//! Every parser of foreign bytes, as functions of bytes: what any input whatever must not break.
//!
//! `cargo test --lib fuzz` feeds them their corpus (`fuzz/corpus/<target>/`) and changed copies of it; see docs/reliability.md.
//! They are also compiled with `--cfg fuzzing`, for fuzzers that need a nightly toolchain.
// Nothing here is a part of the program.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is what is looked for")]

mod engines;
mod files;
mod requests;
mod texts;

#[cfg(test)]
mod changes;
#[cfg(test)]
mod long_run;

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::domain::engine::Engine;

/// A parser under attack: it panics where a promise is broken. What it returns stands for the way the input took; an input
/// that takes a new way is worth changing further.
pub struct Target {
    pub name: String,
    pub run: Box<dyn Fn(&[u8]) -> u64 + Send + Sync>,
    /// Words of the format, which change an input more usefully than random bytes.
    pub words: &'static [&'static str],
}

/// Every target; one for the lines of each engine.
pub fn targets() -> Vec<Target> {
    let agents = Engine::AGENTS.iter().copied().map(|engine| Target {
        name: format!("{}-lines", engine.as_str()),
        run: Box::new(move |bytes| engines::agent(engine, bytes)),
        words: engines::WORDS,
    });
    let target = |name: &str, run: fn(&[u8]) -> u64, words| Target { name: name.to_owned(), run: Box::new(run), words };
    let others = [
        target("script-lines", engines::script, engines::WORDS),
        target("json-repair", texts::json_repair, texts::JSON),
        target("ask-block", texts::ask_block, texts::YAML),
        target("front-matter", texts::front_matter, texts::YAML),
        target("runner-json", texts::runner_json, texts::MANIFEST),
        target("schema", texts::schema, texts::SCHEMA),
        target("template", texts::template, texts::TEMPLATE),
        target("glob", texts::glob, texts::GLOB),
        target("log-line", texts::log_line, texts::LOG),
        target("zip", files::zip, files::ZIP),
        target("export", files::export, files::ZIP),
        target("log-range", files::log_range, &[]),
        target("query", requests::query, requests::QUERY),
        target("range-header", requests::range_header, requests::RANGE),
        target("multipart", requests::multipart, requests::MULTIPART),
        target("create-body", requests::create_body, requests::CREATE),
    ];
    agents.chain(others).collect()
}

/// The way something took, as a number.
fn way(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// How long something is, coarsely: 0, 1, 2, 3…4, 5…8, ….
fn about(length: usize) -> u32 {
    (length + 1).next_power_of_two().trailing_zeros()
}
