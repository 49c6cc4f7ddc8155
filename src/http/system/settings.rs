//! `GET /v1/management/settings`: every setting in force, and where its value comes from. Secrets are masked.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::request::query::Query;
use crate::http::state::app::App;
use crate::settings::listed;

pub(crate) async fn all(State(app): State<App>, query: Query) -> Result<Json<Value>, Problem> {
    query.finish()?;
    Ok(Json(json!({"settings": listed(app.orchestrator().settings().describe())})))
}
