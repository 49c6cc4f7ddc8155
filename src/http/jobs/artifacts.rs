//! `GET /v1/jobs/{id}/artifacts` and the files themselves.

use std::path::Path;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;

use crate::domain::artifact::ArtifactEntry;
use crate::domain::ids::RequestId;
use crate::domain::run_file::RunFolder;
use crate::files::open_beneath;
use crate::http::answer::problem::Problem;
use crate::http::attachment::{FileAnswer, answer};
use crate::http::request::at_seq::past;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::http::state::json::json;
use crate::http::state::task::blocking;
use crate::orchestrator::ProvenRun;

/// Written as it is: it may be long.
#[derive(Serialize)]
struct Listed {
    request_id: RequestId,
    artifacts: Vec<String>,
    manifest: Vec<ArtifactEntry>,
}

/// About how many bytes the list has for each artifact.
const ENTRY_BYTES: usize = 512;

pub(crate) async fn all(State(app): State<App>, asked: RunInPath, query: Query) -> Result<Response, Problem> {
    app.room().make(listed(&app, asked, query)).await
}

async fn listed(app: &App, asked: RunInPath, query: Query) -> Result<Response, Problem> {
    let request_id = asked.request();
    let before_its_end = past(app, &asked, query).await?.filter(|past| !past.state.status().is_final());
    let manifest = match before_its_end {
        Some(past) => past.artifacts,
        None => match app.orchestrator().log().proven(asked.run()).await? {
            Some(proven) => blocking(move || proven.manifest()).await?.artifacts,
            // They are indexed when the run ends.
            None => Vec::new(),
        },
    };
    let about = manifest.len() * ENTRY_BYTES;
    let artifacts = manifest.iter().map(|entry| entry.path_rel.clone()).collect();
    json(Listed { request_id, artifacts, manifest }, about).await
}

pub(crate) async fn one(State(app): State<App>, asked: RunInPath, headers: HeaderMap) -> Result<Response, Problem> {
    let log = app.orchestrator().log();
    let root = log.folder(asked.run()).await?.root;
    let proven = log.proven(asked.run()).await?;
    let file = blocking(move || open(&root, proven, asked.rest)).await?;
    answer(file, &headers)
}

fn open(root: &Path, proven: Option<ProvenRun>, path: String) -> Result<FileAnswer, Problem> {
    if RunFolder::Artifacts.strip(&path).is_none() {
        return Err(Problem::UnsafePath { path, reason: "it must begin with artifacts/" });
    }
    // Opened before it is looked up, so that a path out of the folder is reported as unsafe and not as missing.
    let opened = open_beneath(root, Path::new(&path));
    let listed = match &proven {
        Some(proven) => proven.artifact(&path)?,
        None => None,
    };
    match (listed, proven) {
        (Some((entry, content)), Some(proven)) => {
            Ok(FileAnswer::proven(content, proven, path).named(entry.filename, entry.mime))
        }
        _ => {
            opened.map_err(|source| Problem::File { path: path.clone(), source })?;
            Err(Problem::ArtifactNotFound { path })
        }
    }
}
