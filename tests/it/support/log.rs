//! The check that every run of every test has to pass: its log keeps the rules, its row is its fold, its files are what it says.

use std::collections::BTreeMap;

use skill_runner::domain::cache_key::sha256_hex;
use skill_runner::domain::fact::Stream;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::domain::outcome::StreamProof;
use skill_runner::domain::run_file::RunFolder;
use skill_runner::fcmp::audit::{Auditor, Expect};
use skill_runner::orchestrator::Orchestrator;
use skill_runner::store::EventBatch;

/// What is wrong with a run's log.
pub async fn flaws(service: &Orchestrator, run: RunId) -> Vec<String> {
    let mut files = BTreeMap::new();
    let logs = service.layout().run(run).folder(RunFolder::Logs);
    for stream in [Stream::Stdout, Stream::Stderr, Stream::Pty] {
        if let Ok(bytes) = std::fs::read(logs.join(format!("{}.txt", stream.as_str()))) {
            files.insert(stream, StreamProof { bytes: bytes.len() as u64, sha256: sha256_hex(&bytes) });
        }
    }
    flaws_with(service, run, &files).await
}

/// The same, for raw output that was found elsewhere.
pub async fn flaws_with(service: &Orchestrator, run: RunId, files: &BTreeMap<Stream, StreamProof>) -> Vec<String> {
    let mut flaws = Vec::new();
    let mut auditor = Auditor::default();
    let mut events = service.log().events(run, Seq::START);
    while let Some(page) = events.next_page().await.unwrap() {
        for (_, event) in page.iter().flat_map(EventBatch::events) {
            auditor.push(&event);
        }
    }
    let at = events.at();
    let state = service.state(run).await.unwrap();
    if state.head_seq != at {
        flaws.push(format!("its row ends at {}, its log at {at}", state.head_seq));
    } else if service.log().fold(run, at).await.unwrap().state != state {
        flaws.push("its row is not its fold".to_owned());
    }
    let expect = if state.status().is_final() { Expect::Final } else { Expect::Any };
    flaws.extend(auditor.finish(files, expect).iter().map(|violation| format!("{violation:?}")));
    flaws
}
