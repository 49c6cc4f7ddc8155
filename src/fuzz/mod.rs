//! Every parser of foreign bytes, as functions of bytes: what any input whatever must not break.
//!
//! `cargo test --lib fuzz` feeds them their corpus (`fuzz/corpus/<target>/`) and changed copies of it; see docs/reliability.md.
//! They are also compiled with `--cfg fuzzing`, for fuzzers that need a nightly toolchain.
// Nothing here is a part of the program.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is what is looked for")]

mod answers;
mod engines;
mod files;
mod requests;
mod settings;
mod texts;
mod ways;

#[cfg(test)]
mod changes;
#[cfg(test)]
mod long_run;

use crate::domain::engine::Engine;

/// What is done with an input.
pub type Run = Box<dyn Fn(&[u8]) -> u64 + Send + Sync>;

/// A parser under attack: it panics where a promise is broken. What it returns stands for the way the input took; an input
/// that takes a new way is worth changing further.
pub struct Target {
    pub name: String,
    pub run: Run,
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
        target("python-packages", texts::python_packages, texts::PYTHON),
        target("glob", texts::glob, texts::GLOB),
        target("log-line", texts::log_line, texts::LOG),
        target("zip", files::zip, files::ZIP),
        target("export", files::export, files::ZIP),
        target("log-range", files::log_range, &[]),
        target("query", requests::query, requests::QUERY),
        target("range-header", requests::range_header, requests::RANGE),
        target("proxy-head", requests::proxy_head, requests::PROXY),
        target("multipart", requests::multipart, requests::MULTIPART),
        target("create-body", requests::create_body, requests::CREATE),
        target("headers", requests::headers, requests::HEADERS),
        target("settings", settings::service, settings::SERVICE),
        target("engine-config", settings::engine, settings::ENGINE),
        target("allowed-tools", settings::allowed_tools, settings::TOOLS),
        target("own-tests", settings::own_tests, settings::OWN_TESTS),
        target("object-store", answers::objects, answers::OBJECTS),
        target("object-keys", answers::keys, answers::KEYS),
        target("notification", answers::notification, answers::NOTIFICATION),
        target("installer", answers::installer, answers::INSTALLER),
        target("program", answers::program, answers::PROGRAM),
        target("event-stream", answers::event_stream, answers::EVENTS),
        target("terminal", answers::terminal, answers::TERMINAL),
        target("process-name", answers::process, answers::PROCESS),
        target("run-row", texts::run_row, texts::LOG),
        target("places", texts::places, texts::JSON),
    ];
    agents.chain(others).collect()
}
