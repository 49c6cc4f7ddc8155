//! A run's last files: manifest, result, validation, bundle; on disk before the run is said to be over.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::artifact;
use crate::artifact::Contents;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::cache_key::sha256_hex;
use crate::domain::event::{Event, Normalized};
use crate::domain::fact::{Fact, Stream};
use crate::domain::ids::RequestId;
use crate::domain::outcome::{Evidence, RunError, StreamProof, Warning, code};
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::export::Piece;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Shared;
use crate::orchestrator::intake::create::pretty;
use crate::orchestrator::turn::prepare::begin_stream;
use crate::workspace;
use crate::workspace::RunPaths;

/// Everything the last files say.
pub(crate) struct Closing<'a> {
    pub state: &'a RunState,
    pub status: Status,
    pub data: Option<Value>,
    pub error: Option<RunError>,
    pub artifacts: Vec<ArtifactEntry>,
    /// Warnings of this turn, besides those in the state.
    pub warnings: Vec<Warning>,
    pub normalized: Option<Normalized>,
    pub streams: BTreeMap<String, StreamProof>,
}

/// The streams of a run that never had an engine.
pub(crate) fn no_streams() -> BTreeMap<String, StreamProof> {
    let empty = StreamProof { bytes: 0, sha256: sha256_hex(b"") };
    BTreeMap::from([("stdout".to_owned(), empty.clone()), ("stderr".to_owned(), empty)])
}

/// Write the last files; returns when they would survive a power cut. Blocks.
pub(crate) fn write_files(paths: &RunPaths, closing: Closing<'_>) -> Result<Evidence, Error> {
    let evidence =
        Evidence { streams: closing.streams, artifacts_sha256: artifact::artifacts_sha256(&closing.artifacts) };
    artifact::write_manifest(&paths.file(RunFile::Manifest), &closing.artifacts)?;
    let mut warnings = closing.state.warnings.clone();
    warnings.extend(closing.warnings);
    let result = json!({
        "status": closing.status,
        "data": closing.data,
        "artifacts": listed(closing.state.request_id, &closing.artifacts),
        "validation_warnings": warnings,
        "error": closing.error,
    });
    files::write_whole(&paths.file(RunFile::Result), &pretty(&result))?;
    match &closing.normalized {
        Some(normalized) => files::write_whole(&paths.file(RunFile::Validation), &pretty(&json!(normalized)))?,
        // What a service wrote that died before it could log it never was.
        None => {
            files::remove_tree(&paths.file(RunFile::Validation))?;
        }
    }
    let debug = closing.state.options.debug;
    let contents = if debug { Contents::Everything } else { Contents::Result };
    artifact::bundle(
        &paths.root,
        contents,
        &paths.file(RunFile::bundle(debug)),
        &paths.file(RunFile::bundle_manifest(debug)),
    )?;
    workspace::sync_run(paths)?;
    Ok(evidence)
}

/// Artifacts as a result lists them.
pub(crate) fn listed(request: RequestId, artifacts: &[ArtifactEntry]) -> Vec<Value> {
    let with_url = |artifact: &ArtifactEntry| {
        let mut entry = match json!(artifact) {
            Value::Object(entry) => entry,
            _ => Map::new(),
        };
        let url = format!("/v1/jobs/{request}/artifacts/{}", url_path(&artifact.path_rel));
        entry.insert("url".into(), url.into());
        Value::Object(entry)
    };
    artifacts.iter().map(with_url).collect()
}

/// A path with everything escaped that has a meaning in URLs.
fn url_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                escaped.push(char::from(byte))
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// What closing a run's files came to.
pub(crate) struct Closed {
    /// The files' part of the proof.
    pub evidence: Evidence,
    /// The artifacts that were found, to be logged.
    pub facts: Vec<Fact>,
}

/// The last files of a run that ends without (another) turn of its engine.
pub(crate) async fn without_engine(
    shared: &Arc<Shared>,
    state: &RunState,
    status: Status,
    error: RunError,
) -> Result<Closed, Error> {
    let paths = shared.layout.run(state.run_id);
    let (shared, state) = (shared.clone(), state.clone());
    shared
        .blocking
        .clone()
        .run("write the run's last files", move || {
            forget_unlogged_start(&paths, &state)?;
            if state.status == Status::Queued {
                // The same after an answer: the bytes of earlier turns stay.
                begin_stream(&shared, &state, Stream::Stdout, &paths.file(RunFile::Stdout))?;
                begin_stream(&shared, &state, Stream::Stderr, &paths.file(RunFile::Stderr))?;
            }
            workspace::create_run(&paths)?;
            let streams = stream_proofs(&paths)?;
            // A skill that cannot be read any more has no contract; its files are there all the same.
            let skill = if state.turns > 0 { shared.skill_of(&state).ok() } else { None };
            let contract = skill.map(|skill| skill.artifact_contract()).unwrap_or_default();
            let artifacts = artifact::index(&paths.root, &contract)?.entries;
            let facts = artifacts.iter().map(|entry| Fact::own(Event::ArtifactIndexed(entry.clone()))).collect();
            let closing = Closing {
                state: &state,
                status,
                data: None,
                error: Some(error),
                artifacts,
                warnings: Vec::new(),
                normalized: None,
                streams,
            };
            Ok(Closed { evidence: write_files(&paths, closing)?, facts })
        })
        .await?
}

/// A service that died between the start of an engine and its event left bytes that no event will ever name.
pub(crate) fn forget_unlogged_start(paths: &RunPaths, state: &RunState) -> Result<(), Error> {
    if state.turns == 0 && paths.file(RunFile::Stdout).exists() {
        for left in [
            paths.folder(RunFolder::Logs),
            paths.folder(RunFolder::Artifacts),
            paths.folder(RunFolder::Result),
            paths.folder(RunFolder::Raw),
        ] {
            files::remove_tree(&left)?;
        }
    }
    Ok(())
}

/// The raw streams as they are on disk.
pub(crate) fn stream_proofs(paths: &RunPaths) -> Result<BTreeMap<String, StreamProof>, Error> {
    let mut proofs = no_streams();
    for (name, path) in [
        ("stdout", paths.file(RunFile::Stdout)),
        ("stderr", paths.file(RunFile::Stderr)),
        ("pty", paths.file(RunFile::Pty)),
    ] {
        if let Some(proof) = file_proof(&path)? {
            proofs.insert(name.to_owned(), proof);
        }
    }
    Ok(proofs)
}

/// Length and hash of a file; `None` when it is not there.
pub fn file_proof(path: &Path) -> Result<Option<StreamProof>, Error> {
    let doing = || format!("read {}", path.display());
    let file = match files::open_regular(path) {
        Ok(file) => file,
        // What is no file any more has no bytes to prove.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let digest = Piece::whole(file).and_then(|piece| piece.digest(|_| Ok(()))).map_err(Error::io(doing()))?;
    Ok(Some(StreamProof { bytes: digest.size, sha256: digest.sha256 }))
}

/// The error of a canceled run, for its result.
pub(crate) fn canceled() -> RunError {
    RunError::new(code::CANCELED_BY_USER, "the run was canceled on request")
}
