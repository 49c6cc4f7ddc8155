//! `GET /healthz` and `GET /readyz`.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::state::app::App;

pub(crate) async fn alive() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Whether new runs are accepted. The store is open and old runs are recovered before anything is served.
pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Value>, Problem> {
    app.orchestrator().ready().map_err(Problem::NotReady)?;
    Ok(Json(json!({"status": "ready"})))
}
