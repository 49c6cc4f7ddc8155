//! `GET /v1/engines`: the agent CLIs, with version and login state.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use serde_json::{Value, json};

use crate::domain::engine::Engine;
use crate::engine::{self, Adapter};
use crate::http::answer::problem::Problem;
use crate::http::request::path_params::path_params;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::installed_engines::Status;

pub(crate) async fn all(State(app): State<App>) -> Result<Json<Vec<Value>>, Problem> {
    let statuses = statuses(&app).await?;
    Ok(Json(statuses.iter().map(|status| with_isolation(&app, status)).collect()))
}

/// The status of an engine, and what confines its runs.
pub(crate) fn with_isolation(app: &App, status: &Status) -> Value {
    let mut answer = json!(status);
    if let Some(answer) = answer.as_object_mut() {
        let isolation = app.orchestrator().isolation(engine::adapter(status.engine));
        answer.insert("isolation".to_owned(), json!(isolation));
    }
    answer
}

pub(crate) async fn auth_status(State(app): State<App>) -> Result<Json<Vec<Value>>, Problem> {
    let statuses = statuses(&app).await?.into_iter().map(|status| {
        json!({
            "engine": status.engine,
            "installed": status.installed,
            "auth_ready": status.auth_ready,
            "auth_detail": status.auth_detail,
        })
    });
    Ok(Json(statuses.collect()))
}

async fn statuses(app: &App) -> Result<Vec<Status>, Problem> {
    let installed = app.installed_engines().clone();
    blocking(move || Ok::<_, Problem>(installed.statuses())).await
}

/// The engine that a path names.
pub(crate) struct EngineInPath(pub(crate) &'static Adapter);

impl FromRequestParts<App> for EngineInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        by_name(&path_params(parts).await?.remove("engine").unwrap_or_default()).map(Self)
    }
}

/// The engine that a path names; none for scripts.
pub(crate) struct AnyEngineInPath(pub(crate) Option<&'static Adapter>);

impl FromRequestParts<App> for AnyEngineInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let name = path_params(parts).await?.remove("engine").unwrap_or_default();
        if name == Engine::Script.as_str() {
            return Ok(Self(None));
        }
        by_name(&name).map(|adapter| Self(Some(adapter)))
    }
}

pub(crate) fn by_name(name: &str) -> Result<&'static Adapter, Problem> {
    engine::adapter_named(name).ok_or_else(|| Problem::EngineNotFound { engine: name.chars().take(64).collect() })
}
