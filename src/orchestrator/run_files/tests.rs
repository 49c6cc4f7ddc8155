//! Two data folders, as of two nodes, on one store and one folder of shared files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::row::EndFiles;
use super::*;
use crate::artifact::Manifest;
use crate::blobs::Listed;
use crate::domain::fact::Stream;
use crate::domain::fair_queue::ShareRule;
use crate::domain::ids::Seq;
use crate::domain::outcome::{Evidence, StreamProof};
use crate::domain::proven_file::ProvenFile;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::{Phase, RunState};
use crate::orchestrator::environment::{Clock, WallClock};
use crate::store::{
    Append, Cluster, EventBatch, ForOthers, MemoryNode, MemoryStore, NodeId, NodeInfo, RawPiece, Removals,
};

const RUN: RunId = RunId(Uuid::from_u128(1));

/// Shared files in a folder.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn place(&self, blob: &Blob) -> PathBuf {
        self.0.join(hex::encode(blob.sha256))
    }

    fn keep(&self, bytes: &[u8]) -> Blob {
        let blob = Blob { sha256: Sha256::digest(bytes).into(), size: bytes.len() as u64 };
        fs::write(self.place(&blob), bytes).unwrap();
        blob
    }

    fn content(&self, blob: &Blob) -> Result<Vec<u8>, blobs::Error> {
        let sha256 = hex::encode(blob.sha256);
        let bytes = fs::read(self.place(blob)).map_err(|_| blobs::Error::NotFound { sha256: sha256.clone() })?;
        let found: [u8; 32] = Sha256::digest(&bytes).into();
        if found == blob.sha256 { Ok(bytes) } else { Err(blobs::Error::Damaged { sha256, reason: "changed".into() }) }
    }
}

impl Blobs for Folder {
    fn put_file<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Blob, blobs::Error>> {
        Box::pin(async move { Ok(self.keep(&fs::read(path).unwrap())) })
    }

    fn put(&self, bytes: Bytes) -> BoxFuture<'_, Result<Blob, blobs::Error>> {
        Box::pin(async move { Ok(self.keep(&bytes)) })
    }

    fn fetch<'a>(&'a self, blob: &'a Blob, to: &'a Path) -> BoxFuture<'a, Result<(), blobs::Error>> {
        Box::pin(async move { self.content(blob).map(|bytes| fs::write(to, bytes).unwrap()) })
    }

    fn read(&self, blob: &Blob) -> BoxFuture<'_, Result<Bytes, blobs::Error>> {
        let read = self.content(blob).map(Bytes::from);
        Box::pin(async move { read })
    }

    fn remove(&self, _: &Blob) -> BoxFuture<'_, Result<(), blobs::Error>> {
        Box::pin(async { Ok(()) })
    }

    fn list(&self, _: Option<[u8; 32]>, _: usize) -> BoxFuture<'_, Result<Vec<Listed>, blobs::Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn check(&self) -> BoxFuture<'_, Result<String, blobs::Error>> {
        Box::pin(async { Ok("here".into()) })
    }
}

struct Nodes {
    folder: tempfile::TempDir,
    store: Arc<MemoryStore>,
    a: Arc<RunFiles>,
    b: Arc<RunFiles>,
}

fn nodes() -> Nodes {
    nodes_on(MemoryStore::default())
}

fn nodes_on(store: MemoryStore) -> Nodes {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("blobs")).unwrap();
    let store = Arc::new(store);
    let node = |name: &str| {
        let blobs: Arc<dyn Blobs> = Arc::new(Folder(folder.path().join("blobs")));
        let layout = Layout::new(folder.path().join(name));
        fs::create_dir(layout.data()).unwrap();
        Arc::new(RunFiles::new(store.clone(), layout, Blocking::Threads, Some(blobs)))
    };
    let (a, b) = (node("a"), node("b"));
    Nodes { folder, store, a, b }
}

fn state() -> RunState {
    let started = json!({
        "request_id": Uuid::from_u128(2), "skill": {"id": "s", "version": "1.0.0", "fingerprint": ""},
        "engine": "codex", "model": null, "execution_mode": "auto", "input": {}, "parameter": {},
        "awaiting_upload": false, "idempotency_sha256": null,
        "runtime_options": {
            "execution_mode": "auto", "no_cache": false, "debug": false, "debug_keep_temp": false,
            "verbose": false, "interactive_auto_reply": false, "interactive_reply_timeout_sec": 1,
            "hard_timeout_seconds": 60, "stall_timeout_seconds": 0,
        },
    });
    RunState::open(RUN, &serde_json::from_value(started).unwrap(), WallClock.now())
}

impl Nodes {
    /// Logs one event, with what goes along.
    async fn append(&self, along: Along) {
        let head = self.store.head(&RUN).await.unwrap();
        let events = vec![EventBatch { first: head.next(), count: 1, ndjson: "{}\n".into() }];
        let mut for_others = ForOthers::default();
        along.fill(&mut for_others);
        let append =
            Append { run: RUN, expected_head: head, events, index: along.rows, require_absent: None, for_others };
        self.store.append(append).await.unwrap();
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.folder.path().join(path)).ok()
    }

    /// Changes every shared file.
    fn damage(&self) {
        for entry in fs::read_dir(self.folder.path().join("blobs")).unwrap() {
            fs::write(entry.unwrap().path(), "damaged").unwrap();
        }
    }
}

fn in_run(node: &str, file: &str) -> String {
    format!("{node}/runs/{RUN}/{file}")
}

#[tokio::test]
async fn a_run_at_rest_goes_on_elsewhere_with_its_folders_and_its_session_and_without_a_login() {
    let nodes = nodes();
    let (request, home) = (format!("requests/{}", state().request_id), format!("homes/{RUN}/.codex"));
    nodes.write(&in_run("a", "input.json"), "{}");
    nodes.write(&format!("a/{request}/uploads/in.txt"), "uploaded");
    nodes.write(&format!("a/{request}/request.json"), "a key");
    nodes.write(&format!("a/{home}/sessions/one"), "words");
    nodes.write(&format!("a/{home}/auth.json"), "a key");
    let along = nodes.a.at_rest(&state(), None, Some("request.json")).await.unwrap();
    assert_eq!(along.files.len(), 1);
    let mark = along.mark.clone();
    nodes.append(along).await;
    nodes.a.settled(RUN, mark).await;
    // What an earlier turn left on the other node does not stay.
    nodes.write(&in_run("b", "stale"), "old");
    nodes.b.take(&state()).await.unwrap().keep();
    assert_eq!(nodes.read(&in_run("b", "input.json")).as_deref(), Some("{}"));
    assert_eq!(nodes.read(&format!("b/{request}/uploads/in.txt")).as_deref(), Some("uploaded"));
    assert_eq!(nodes.read(&format!("b/{home}/sessions/one")).as_deref(), Some("words"));
    for gone in [in_run("b", "stale"), format!("b/{request}/request.json"), format!("b/{home}/auth.json")] {
        assert_eq!(nodes.read(&gone), None, "{gone}");
    }
    // The first node has it still, and needs nothing shared.
    nodes.damage();
    nodes.write(&in_run("a", "own"), "kept");
    nodes.a.take(&state()).await.unwrap().keep();
    assert_eq!(nodes.read(&in_run("a", "own")).as_deref(), Some("kept"));
}

#[tokio::test]
async fn what_was_changed_and_never_logged_is_restored_and_a_damaged_archive_is_said() {
    let nodes = nodes();
    nodes.write(&in_run("a", "input.json"), "{}");
    let along = nodes.a.at_rest(&state(), None, None).await.unwrap();
    let mark = along.mark.clone();
    nodes.append(along).await;
    nodes.a.settled(RUN, mark).await;
    let held = nodes.a.take(&state()).await.unwrap();
    nodes.write(&in_run("a", "half"), "done");
    drop(held);
    nodes.a.look(&state()).await.unwrap();
    assert_eq!(nodes.read(&in_run("a", "half")), None);
    nodes.damage();
    let error = nodes.b.take(&state()).await.err().unwrap();
    assert_eq!(error.code(), crate::domain::codes::ErrorCode::DataCorrupt);
}

#[tokio::test]
async fn output_of_a_turn_that_another_node_began_is_had_by_one_that_died_before_it_could_begin_it() {
    let nodes = nodes_on(MemoryStore::for_several(ShareRule { label: None, tokens: false }, Arc::new(|| 0)));
    nodes.write(&in_run("a", "input.json"), "{}");
    let along = nodes.a.at_rest(&state(), None, None).await.unwrap();
    let mark = along.mark.clone();
    nodes.append(along).await;
    nodes.a.settled(RUN, mark).await;
    // Both were about to begin the turn; the second one did.
    nodes.a.take(&state()).await.unwrap().keep();
    nodes.b.take(&state()).await.unwrap().keep();
    let head = nodes.store.head(&RUN).await.unwrap();
    let raw = vec![RawPiece { stream: Stream::Stderr, from: 0, bytes: Bytes::from_static(b"words") }];
    let append = Append {
        run: RUN,
        expected_head: head,
        events: vec![EventBatch { first: head.next(), count: 1, ndjson: "{}\n".into() }],
        index: Vec::new(),
        require_absent: None,
        for_others: ForOthers { raw, ..ForOthers::default() },
    };
    nodes.store.append(append).await.unwrap();
    // The first one is started anew and takes the run over.
    let blobs: Arc<dyn Blobs> = Arc::new(Folder(nodes.folder.path().join("blobs")));
    let layout = Layout::new(nodes.folder.path().join("a"));
    let again = Arc::new(RunFiles::new(nodes.store.clone(), layout, Blocking::Threads, Some(blobs)));
    let mut running = state();
    (running.phase, running.turns) = (Phase::Running, 1);
    again.take(&running).await.unwrap().keep();
    assert_eq!(nodes.read(&in_run("a", "logs/stderr.txt")).as_deref(), Some("words"));
}

#[tokio::test]
async fn a_finished_run_is_served_by_a_node_that_never_had_it_and_what_is_missing_is_said() {
    let nodes = nodes();
    let (result, output) = (RunFile::Result.name(), RunFile::Stdout.name());
    nodes.write(&in_run("a", result), "{}");
    nodes.write(&in_run("a", output), "words");
    let manifest = Manifest { artifacts: Vec::new(), files: Some(vec![ProvenFile::of(result, b"{}")]) };
    let manifest = String::from_utf8(manifest.to_bytes()).unwrap();
    nodes.write(&in_run("a", RunFile::Manifest.name()), &manifest);
    let proof = StreamProof { bytes: 5, sha256: hex::encode(Sha256::digest(b"words")) };
    let evidence = Evidence {
        streams: [("stdout".to_owned(), proof)].into(),
        artifacts_sha256: String::new(),
        files_sha256: String::new(),
        result_sha256: String::new(),
    };
    let along = nodes.a.at_end(RUN, &evidence).await.unwrap();
    assert_eq!(along.files.len(), 3);
    nodes.append(along).await;
    fs::remove_dir_all(nodes.folder.path().join("a")).unwrap();
    nodes.b.fetch_finished(RUN).await.unwrap();
    assert_eq!(nodes.read(&in_run("b", result)).as_deref(), Some("{}"));
    assert_eq!(nodes.read(&in_run("b", output)).as_deref(), Some("words"));
    assert_eq!(nodes.read(&in_run("b", RunFile::Manifest.name())), Some(manifest));
    // Fetched once.
    nodes.damage();
    nodes.b.fetch_finished(RUN).await.unwrap();
    fs::remove_dir_all(nodes.folder.path().join("b").join("runs")).unwrap();
    assert!(matches!(nodes.b.fetch_finished(RUN).await, Err(Error::Damaged { .. })));
    fs::remove_dir_all(nodes.folder.path().join("blobs")).unwrap();
    assert!(matches!(nodes.b.fetch_finished(RUN).await, Err(Error::FilesGone { .. })));
}

#[tokio::test]
async fn files_that_are_removed_before_they_are_named_are_put_again() {
    let place = tempfile::tempdir().unwrap();
    let shared = place.path().join("blobs");
    fs::create_dir(&shared).unwrap();
    let store = MemoryStore::for_several(ShareRule { label: None, tokens: false }, Arc::new(|| 0));
    let node = Arc::new(MemoryNode::new(store, NodeId(Uuid::from_u128(1))));
    let lease = Duration::from_secs(60);
    let (name, version) = ("one".to_owned(), "1".to_owned());
    node.join(NodeInfo { node: node.node(), name, version, address: None, works: true, lease }).await.unwrap();
    let layout = Layout::new(place.path().join("data"));
    fs::create_dir_all(layout.run(RUN).root).unwrap();
    fs::write(layout.run(RUN).root.join("input.json"), "{}").unwrap();
    let files = RunFiles::new(node.clone(), layout, Blocking::Threads, Some(Arc::new(Folder(shared.clone()))));
    let along = files.at_rest(&state(), None, None).await.unwrap();
    let there = || fs::read_dir(&shared).unwrap().count();
    assert_eq!(there(), 1);
    // Nothing needs it yet, so that another service may remove it.
    let begun = node.begin_removal(&along.files).await.unwrap();
    assert_eq!(begun, along.files);
    fs::remove_dir_all(&shared).unwrap();
    fs::create_dir(&shared).unwrap();
    node.end_removal(&begun, &[]).await.unwrap();
    let events = vec![EventBatch { first: Seq(1), count: 1, ndjson: "{}\n".into() }];
    let mut for_others = ForOthers::default();
    along.fill(&mut for_others);
    let (expected_head, require_absent) = (Seq::START, None);
    let named = Append { run: RUN, expected_head, events, index: along.rows, require_absent, for_others };
    assert_eq!(append(node.clone(), named, along.sources.unwrap()).await.unwrap(), Seq(1));
    assert_eq!((there(), node.begin_removal(&begun).await.unwrap()), (1, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn an_append_whose_files_are_being_removed_for_ever_is_given_up() {
    let place = tempfile::tempdir().unwrap();
    let store = MemoryStore::for_several(ShareRule { label: None, tokens: false }, Arc::new(|| 0));
    let node = Arc::new(MemoryNode::new(store, NodeId(Uuid::from_u128(1))));
    let lease = Duration::from_secs(60);
    let (name, version) = ("one".to_owned(), "1".to_owned());
    node.join(NodeInfo { node: node.node(), name, version, address: None, works: true, lease }).await.unwrap();
    // Its removal was begun, and nobody ends it.
    let file = [7; 32];
    assert_eq!(node.begin_removal(&[file]).await.unwrap(), [file]);
    let named = Append {
        run: RUN,
        expected_head: Seq::START,
        events: vec![EventBatch { first: Seq(1), count: 1, ndjson: "{}\n".into() }],
        index: Vec::new(),
        require_absent: None,
        for_others: ForOthers { files: vec![file], ..ForOthers::default() },
    };
    let blobs: Arc<dyn Blobs> = Arc::new(Folder(place.path().to_owned()));
    let sources = Arc::new(Sources { blobs, files: Vec::new(), temporary: Vec::new() });
    let given_up = tokio::time::timeout(Duration::from_secs(24 * 3600), append(node, named, sources)).await;
    assert!(matches!(given_up, Ok(Err(crate::store::Error::FilesRemoved))), "{given_up:?}");
}

#[tokio::test]
async fn files_at_rest_are_given_up_and_fetched_again_and_those_in_use_stay() {
    let nodes = nodes();
    nodes.write(&in_run("a", "input.json"), "{}");
    let along = nodes.a.at_rest(&state(), None, None).await.unwrap();
    let mark = along.mark.clone();
    assert_eq!(nodes.a.evict(&state(), Duration::ZERO).await.unwrap(), 0, "they are not shared yet");
    nodes.append(along).await;
    nodes.a.settled(RUN, mark).await;
    assert_eq!(nodes.a.evict(&state(), Duration::from_secs(60)).await.unwrap(), 0, "they were used just now");
    let held = nodes.a.take(&state()).await.unwrap();
    assert_eq!(nodes.a.evict(&state(), Duration::ZERO).await.unwrap(), 0, "somebody changes them");
    drop(held);
    nodes.a.look(&state()).await.unwrap();
    let layout = Layout::new(nodes.folder.path().join("a"));
    let here = || cached(&layout, &mut Sizes::new()).iter().map(|cached| cached.run).collect::<Vec<_>>();
    assert_eq!(here(), [RUN]);
    assert!(nodes.a.evict(&state(), Duration::ZERO).await.unwrap() > 0);
    assert_eq!((nodes.read(&in_run("a", "input.json")), here()), (None, Vec::new()));
    nodes.a.look(&state()).await.unwrap();
    assert_eq!(nodes.read(&in_run("a", "input.json")).as_deref(), Some("{}"));
    // A folder that vanished is fetched, whatever the mark says.
    fs::remove_dir_all(layout.run(RUN).root).unwrap();
    nodes.a.take(&state()).await.unwrap().keep();
    assert_eq!(nodes.read(&in_run("a", "input.json")).as_deref(), Some("{}"));
}

#[tokio::test]
async fn a_sealed_log_is_shared_before_its_events_go() {
    let nodes = nodes();
    nodes.append(Along::default()).await;
    fs::create_dir_all(nodes.folder.path().join(in_run("a", RunFolder::Logs.name()))).unwrap();
    nodes.write(&in_run("a", RunFile::Events.name()), "{}\n");
    assert_eq!(nodes.b.fetch_sealed(RUN).await.unwrap(), None);
    nodes.a.share_sealed(RUN, Seq(1)).await.unwrap();
    let fetched = nodes.b.fetch_sealed(RUN).await.unwrap().unwrap();
    assert_eq!(fs::read_to_string(fetched).unwrap(), "{}\n");
}

#[tokio::test]
async fn a_forged_row_writes_no_file_elsewhere_and_takes_neither_memory_nor_the_disk() {
    let nodes = nodes();
    let bytes = Bytes::from_static(b"{}");
    let blob = Folder(nodes.folder.path().join("blobs")).keep(&bytes);
    let huge = Blob { size: u64::MAX / 2, ..blob };
    let put = async |row: Row| {
        let rows = vec![IndexChange::Put(IndexKey::Snapshot(RUN), serde_json::to_vec(&row).unwrap().into())];
        nodes.append(Along { rows, ..Along::default() }).await;
    };
    let refused = |outcome: Result<(), Error>| match outcome {
        Err(Error::Corrupt { message, .. }) => message,
        other => panic!("{other:?}"),
    };
    let outside = nodes.folder.path().join("outside");
    for name in ["../../../outside", outside.to_str().unwrap(), "logs/events.jsonl", "manifest.json", ""] {
        let end = EndFiles { manifest: blob, streams: [(name.to_owned(), blob)].into() };
        put(Row { end: Some(end), ..Row::default() }).await;
        let told = refused(nodes.b.fetch_finished(RUN).await);
        assert!(told.contains("is no file of raw output"), "{told}");
        assert!(!outside.exists());
    }
    put(Row { end: Some(EndFiles { manifest: huge, streams: Default::default() }), ..Row::default() }).await;
    assert!(refused(nodes.b.fetch_finished(RUN).await).contains("a manifest has no"));
    put(Row { files: Some(huge), sealed: Some(huge), ..Row::default() }).await;
    assert!(matches!(nodes.b.look(&state()).await, Err(Error::InsufficientStorage { .. })));
    assert!(matches!(nodes.b.fetch_sealed(RUN).await, Err(Error::InsufficientStorage { .. })));
}
