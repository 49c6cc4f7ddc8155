//! `GET /metrics`: everything that is counted, for Prometheus.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::http::answer::problem::Problem;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::metrics::{PROMETHEUS_CONTENT_TYPE, prometheus};
use crate::orchestrator::Error;

pub(crate) async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let orchestrator = app.orchestrator().clone();
    let text = blocking(move || Ok::<_, Error>(prometheus(&orchestrator.read_metrics()))).await?;
    Ok(([(header::CONTENT_TYPE, PROMETHEUS_CONTENT_TYPE)], text).into_response())
}
