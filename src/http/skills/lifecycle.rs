//! The versions of a skill, and `POST …/rollback` and `DELETE`, which change the one in place.

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::request::json_body::JsonBody;
use crate::http::request::path_params::path_params;
use crate::http::state::app::App;
use crate::http::state::task::{blocking, through};
use crate::orchestrator::{Change, Install};

pub(crate) async fn versions(State(app): State<App>, mut parts: Parts) -> Result<Json<Value>, Problem> {
    let id = skill_in(&mut parts).await?;
    let orchestrator = app.orchestrator().clone();
    let versions = orchestrator.versions(id.clone()).await?;
    if versions.is_empty() {
        return blocking(move || Err(Problem::from(orchestrator.no_such_skill(&id)))).await;
    }
    Ok(Json(json!({"skill_id": id, "versions": versions})))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rollback {
    version: String,
}

pub(crate) async fn rollback(
    State(app): State<App>,
    mut parts: Parts,
    JsonBody(asked, _): JsonBody<Rollback>,
) -> Result<Json<Install>, Problem> {
    let id = skill_in(&mut parts).await?;
    change(app, id, Change::Rollback { to: asked.version }).await
}

pub(crate) async fn uninstall(State(app): State<App>, mut parts: Parts) -> Result<Json<Install>, Problem> {
    let id = skill_in(&mut parts).await?;
    change(app, id, Change::Uninstall).await
}

async fn change(app: App, id: String, change: Change) -> Result<Json<Install>, Problem> {
    let orchestrator = app.orchestrator().clone();
    through(async move { orchestrator.change(id, change).await }).await.map(Json)
}

async fn skill_in(parts: &mut Parts) -> Result<String, Problem> {
    Ok(path_params(parts).await?.remove("id").unwrap_or_default())
}
