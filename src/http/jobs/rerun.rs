//! `POST /v1/jobs/{id}/rerun`: creates a run that asks for the same as an earlier one; the body may change what it asks for.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Map, Value};

use crate::http::answer::problem::Problem;
use crate::http::jobs::create::{created, trace_parent};
use crate::http::request::json_body::{JsonBody, JsonBodyOrNone};
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::server::grant::{Access, Granted};
use crate::http::state::app::App;

pub(crate) async fn rerun(
    State(app): State<App>,
    granted: Granted,
    asked: RunInPath,
    query: Query,
    headers: HeaderMap,
    JsonBodyOrNone(patch): JsonBodyOrNone<Map<String, Value>>,
) -> Result<Response, Problem> {
    let JsonBody(patch, place) = patch.unwrap_or_default();
    let mut again = app.orchestrator().rerun_of(asked.run(), patch).await?;
    again.request.requested_by = granted.by();
    again.request.traceparent = trace_parent(&headers);
    if !again.request.engine_configs.is_empty() {
        granted.require(Access::Admin)?;
    }
    let orchestrator = app.orchestrator().clone();
    let make = async move |key: Option<String>| {
        let _until_created = place;
        orchestrator.rerun(again, key.as_deref()).await
    };
    created(app, query, headers, "/v1/jobs", make).await
}
