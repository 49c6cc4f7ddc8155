//! `GET /v1/management/engines`: the agent CLIs with the number of their models; one of them with all of them.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::engines::status::{EngineInPath, with_isolation};
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::installed_engines::{Models, Status};

pub(crate) async fn all(State(app): State<App>) -> Result<Json<Value>, Problem> {
    let installed = app.installed_engines().clone();
    let engines = blocking(move || {
        let models_of = |status: &Status| crate::engine::adapter_named(status.engine.as_str());
        let statuses = installed.statuses().into_iter().map(|status| {
            let models = models_of(&status).map_or_else(Models::of_scripts, |adapter| installed.models(adapter));
            (status, models)
        });
        Ok::<_, Problem>(statuses.collect::<Vec<_>>())
    })
    .await?;
    let engines: Vec<Value> = engines.iter().map(|(status, models)| shown(&app, status, models)).collect();
    Ok(Json(json!({"engines": engines})))
}

pub(crate) async fn one(State(app): State<App>, EngineInPath(adapter): EngineInPath) -> Result<Json<Value>, Problem> {
    let installed = app.installed_engines().clone();
    let (status, models) =
        blocking(move || Ok::<_, Problem>((installed.status(adapter), installed.models(adapter)))).await?;
    let mut answer = shown(&app, &status, &models);
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("models".to_owned(), json!(models));
    }
    Ok(Json(answer))
}

/// What `GET /v1/engines` tells of an engine, and how many models it has.
fn shown(app: &App, status: &Status, models: &Models) -> Value {
    let mut answer = with_isolation(app, status);
    let models = json!(models);
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("cli_version".to_owned(), json!(status.cli_version_detected));
        answer.insert("models_count".to_owned(), json!(models["models"].as_array().map_or(0, Vec::len)));
    }
    answer
}
