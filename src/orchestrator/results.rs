//! What a finished run leaves for its readers: manifest, result, validation; on disk before the run is said to be over.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::artifact::{self, Manifest};
use crate::domain::Ending;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::cache_key::sha256_hex;
use crate::domain::event::Normalized;
use crate::domain::ids::RequestId;
use crate::domain::outcome::{Evidence, StreamProof, Warning};
use crate::domain::proven_file::{ProvenFile, files_sha256};
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::export::Piece;
use crate::files;
use crate::orchestrator::error::Error;
use crate::workspace::{self, RunPaths};

/// What is escaped in the path of a URL; a slash separates folders.
const URL_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Everything the last files say.
pub(crate) struct FinalFiles<'a> {
    pub state: &'a RunState,
    pub ending: &'a Ending,
    /// The result's data, of a run that succeeded.
    pub data: Option<Value>,
    /// What its script says of the success besides.
    pub remarks: Map<String, Value>,
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

/// The last files of a run, on disk.
pub(crate) struct WrittenFiles {
    pub evidence: Evidence,
    /// The result and how it was validated: what an equal run may take, besides the artifacts.
    pub results: Vec<ProvenFile>,
}

/// Write the last files; returns when they would survive a power cut. No process of the run may be left. Blocks.
pub(crate) fn write_files(paths: &RunPaths, run: FinalFiles<'_>) -> Result<WrittenFiles, Error> {
    let mut warnings = run.state.warnings.clone();
    warnings.extend(run.warnings);
    let mut result = json!({
        "status": run.ending.status(),
        "data": run.data,
        "artifacts": listed(run.state.request_id, &run.artifacts),
        "validation_warnings": warnings,
        "error": run.ending.error(),
    });
    if let (Value::Object(members), Some(_)) = (&mut result, &run.data) {
        members.extend(run.remarks);
    }
    let mut results = vec![write_own(paths, RunFile::Result, &pretty(&result))?];
    match &run.normalized {
        Some(normalized) => results.push(write_own(paths, RunFile::Validation, &pretty(&json!(normalized)))?),
        // A process that died before it could log the run's end may have left one.
        None => {
            files::remove_tree(&paths.file(RunFile::Validation))?;
        }
    }
    workspace::remove_unused(paths, &paths.skill_copy(&run.state.engine, &run.state.skill.id));
    let evidence = prove(paths, run.streams, run.artifacts, &results)?;
    workspace::sync_run(paths)?;
    Ok(WrittenFiles { evidence, results })
}

fn write_own(paths: &RunPaths, file: RunFile, bytes: &[u8]) -> Result<ProvenFile, Error> {
    files::write_own(&paths.file(file), bytes)?;
    Ok(ProvenFile::of(file.name(), bytes))
}

/// Lists every file that the run is judged or served by in its manifest; the proof of them. `written` are those of them whose
/// content is known, the result first. Blocks.
pub(crate) fn prove(
    paths: &RunPaths,
    streams: BTreeMap<String, StreamProof>,
    artifacts: Vec<ArtifactEntry>,
    written: &[ProvenFile],
) -> Result<Evidence, Error> {
    let files = artifact::proven_files(&paths.root, written)?;
    let evidence = evidence(streams, &artifacts, &files);
    let manifest = Manifest { artifacts, files: Some(files) };
    files::write_own(&paths.file(RunFile::Manifest), &manifest.to_bytes())?;
    Ok(evidence)
}

/// The proof of these files.
pub(crate) fn evidence(
    streams: BTreeMap<String, StreamProof>,
    artifacts: &[ArtifactEntry],
    files: &[ProvenFile],
) -> Evidence {
    let result = files.iter().find(|file| file.path == RunFile::Result.name());
    Evidence {
        streams,
        artifacts_sha256: artifact::artifacts_sha256(artifacts),
        files_sha256: files_sha256(files, artifacts),
        result_sha256: result.map(|result| result.sha256.clone()).unwrap_or_default(),
    }
}

/// Artifacts as a result lists them.
pub(crate) fn listed(request: RequestId, artifacts: &[ArtifactEntry]) -> Vec<Value> {
    let with_url = |artifact: &ArtifactEntry| {
        let mut entry = match json!(artifact) {
            Value::Object(entry) => entry,
            _ => Map::new(),
        };
        let path = utf8_percent_encode(&artifact.path_rel, URL_PATH);
        let url = format!("/v1/jobs/{request}/artifacts/{path}");
        entry.insert("url".into(), url.into());
        Value::Object(entry)
    };
    artifacts.iter().map(with_url).collect()
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
pub(crate) fn file_proof(path: &Path) -> Result<Option<StreamProof>, Error> {
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

/// JSON for people and programs, with an end of line.
pub(crate) fn pretty(value: &Value) -> Vec<u8> {
    let mut text = format!("{value:#}");
    text.push('\n');
    text.into_bytes()
}
