//! `GET /v1/jobs/{id}/artifacts` and the files themselves.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::domain::artifact::ArtifactEntry;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::files::open_beneath;
use crate::http::answer::problem::Problem;
use crate::http::answer::run_file::read_json;
use crate::http::attachment::{FileAnswer, answer};
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::workspace::RunPaths;

pub(crate) async fn all(State(app): State<App>, asked: RunInPath) -> Result<Json<Value>, Problem> {
    let request_id = asked.request();
    let is_final = asked.state.status().is_final();
    let paths = app.orchestrator().log().folder(asked.run()).await?;
    let manifest = blocking(move || entries(&paths, is_final)).await?;
    let paths: Vec<&str> = manifest.iter().map(|entry| entry.path_rel.as_str()).collect();
    Ok(Json(json!({"request_id": request_id, "artifacts": paths, "manifest": manifest})))
}

pub(crate) async fn one(State(app): State<App>, asked: RunInPath, headers: HeaderMap) -> Result<Response, Problem> {
    let is_final = asked.state.status().is_final();
    let paths = app.orchestrator().log().folder(asked.run()).await?;
    let file = blocking(move || open(&paths, asked.rest, is_final)).await?;
    answer(file, &headers)
}

fn open(paths: &RunPaths, path: String, is_final: bool) -> Result<FileAnswer, Problem> {
    if RunFolder::Artifacts.strip(&path).is_none() {
        return Err(Problem::UnsafePath { path, reason: "it must begin with artifacts/" });
    }
    // Opened before it is looked up, so that a path out of the folder is reported as unsafe and not as missing.
    let opened = open_beneath(&paths.root, Path::new(&path));
    let file = opened.map_err(|source| Problem::File { path: path.clone(), source })?;
    let entry = entries(paths, is_final)?.into_iter().find(|entry| entry.path_rel == path);
    let entry = entry.ok_or(Problem::ArtifactNotFound { path })?;
    FileAnswer::new(file, entry.filename, entry.mime, Some(entry.sha256))
}

/// The artifacts of a run; they are indexed when it ends.
fn entries(paths: &RunPaths, is_final: bool) -> Result<Vec<ArtifactEntry>, Problem> {
    #[derive(Deserialize)]
    struct Manifest {
        artifacts: Vec<ArtifactEntry>,
    }
    if !is_final {
        return Ok(Vec::new());
    }
    let manifest: Manifest = read_json(paths, RunFile::Manifest)?;
    Ok(manifest.artifacts)
}
