//! `/v1/engines/{engine}/models`: the models of an engine, and the snapshots that list them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;

use crate::bounded::object::Object;
use crate::domain::event::ValidationError;
use crate::http::answer::problem::Problem;
use crate::http::engines::status::{AnyEngineInPath, EngineInPath};
use crate::http::request::json_body::JsonBody;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::installed_engines::{Entry, Manifest, Models, SnapshotRefused};

/// Scripts are an engine, too, and have no models.
pub(crate) async fn models(State(app): State<App>, engine: AnyEngineInPath) -> Result<Json<Models>, Problem> {
    let AnyEngineInPath(adapter) = engine;
    let Some(adapter) = adapter else { return Ok(Json(Models::of_scripts())) };
    let installed = app.installed_engines().clone();
    blocking(move || Ok::<_, Problem>(installed.models(adapter))).await.map(Json)
}

pub(crate) async fn manifest(
    State(app): State<App>,
    EngineInPath(adapter): EngineInPath,
) -> Result<Json<Manifest>, Problem> {
    let installed = app.installed_engines().clone();
    blocking(move || Ok::<_, Problem>(installed.manifest(adapter))).await.map(Json)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSnapshot {
    /// The CLI's version; left out, the installed one.
    #[serde(default)]
    cli_version: Option<String>,
    models: Vec<Object<Entry>>,
}

pub(crate) async fn add_snapshot(
    State(app): State<App>,
    EngineInPath(adapter): EngineInPath,
    JsonBody(snapshot, _): JsonBody<NewSnapshot>,
) -> Result<(StatusCode, Json<Manifest>), Problem> {
    let installed = app.installed_engines().clone();
    let entries = snapshot.models.into_iter().map(|Object(entry)| entry).collect();
    let manifest = blocking(move || installed.add_snapshot(adapter, snapshot.cli_version, entries)).await?;
    Ok((StatusCode::CREATED, Json(manifest)))
}

impl From<SnapshotRefused> for Problem {
    fn from(refused: SnapshotRefused) -> Self {
        match refused {
            SnapshotRefused::Invalid { path, message } => Problem::InvalidRequest {
                message: format!("{path}: {message}"),
                details: vec![ValidationError { path, message }],
            },
            SnapshotRefused::Io { path, source } => Problem::EngineFile { path: path.display().to_string(), source },
        }
    }
}
