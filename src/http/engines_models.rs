//! `/v1/engines/{engine}/models`: which models there are, and the snapshots that say so.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;

use super::app::{App, blocking};
use super::engines::AskedEngine;
use super::error::Problem;
use super::json_body::JsonBody;
use crate::domain::event::ValidationError;
use crate::installed_engines::{Entry, Manifest, Models, SnapshotRefused};

pub(super) async fn models(State(app): State<App>, AskedEngine(adapter): AskedEngine) -> Result<Json<Models>, Problem> {
    let installed = app.installed_engines().clone();
    blocking(move || Ok::<_, Problem>(installed.models(adapter))).await.map(Json)
}

pub(super) async fn manifest(
    State(app): State<App>,
    AskedEngine(adapter): AskedEngine,
) -> Result<Json<Manifest>, Problem> {
    let installed = app.installed_engines().clone();
    blocking(move || Ok::<_, Problem>(installed.manifest(adapter))).await.map(Json)
}

/// A snapshot as it is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSnapshot {
    /// The CLI's version; left out, the installed one.
    #[serde(default)]
    cli_version: Option<String>,
    models: Vec<Entry>,
}

pub(super) async fn add_snapshot(
    State(app): State<App>,
    AskedEngine(adapter): AskedEngine,
    JsonBody(snapshot): JsonBody<NewSnapshot>,
) -> Result<(StatusCode, Json<Manifest>), Problem> {
    let installed = app.installed_engines().clone();
    let manifest = blocking(move || installed.add_snapshot(adapter, snapshot.cli_version, snapshot.models)).await?;
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
