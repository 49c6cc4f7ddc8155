//! `POST /v1/jobs` and `POST /v1/temp-skill-runs`: a new run, and with `wait` its end in the same answer.

use std::future::Future;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, http};
use serde::Serialize;
use serde_json::value::RawValue;

use super::app::{App, through};
use super::error::Problem;
use super::json_body::JsonBody;
use super::query::{Query, whole_number};
use super::results::result_of;
use crate::domain::ids::RunId;
use crate::orchestrator::{CreateRequest, Created, Error};
use crate::projection::Job;

/// Longest wait; a longer one is cut to this.
pub(super) const MAX_WAIT_SECONDS: u64 = 600;
/// Longest idempotency key.
const MAX_KEY_BYTES: usize = 256;

pub(super) async fn create(
    State(app): State<App>,
    query: Query,
    headers: HeaderMap,
    JsonBody(request): JsonBody<CreateRequest>,
) -> Result<Response, Problem> {
    let orchestrator = app.orchestrator().clone();
    let make = async move |key: Option<String>| orchestrator.create(request, key.as_deref()).await;
    created(app, query, headers, "/v1/jobs", make).await
}

/// A run of a skill that comes with the upload and is this run's alone.
pub(super) async fn create_temp(
    State(app): State<App>,
    query: Query,
    headers: HeaderMap,
    JsonBody(request): JsonBody<CreateRequest>,
) -> Result<Response, Problem> {
    let orchestrator = app.orchestrator().clone();
    let make = async move |key: Option<String>| orchestrator.create_temp(request, key.as_deref()).await;
    created(app, query, headers, "/v1/temp-skill-runs", make).await
}

async fn created<F>(
    app: App,
    mut query: Query,
    headers: HeaderMap,
    prefix: &str,
    make: impl FnOnce(Option<String>) -> F,
) -> Result<Response, Problem>
where
    F: Future<Output = Result<Created, Error>> + Send + 'static,
{
    let asked = query.whole("wait")?;
    query.finish()?;
    let preferred = preferred_wait(&headers);
    let key = idempotency_key(&headers)?;
    let created = through(make(key)).await?;
    let location = HeaderValue::from_str(&format!("{prefix}/{}", created.request_id)).ok();
    let wait = asked.or(preferred).filter(|seconds| *seconds > 0);
    let mut response = match wait {
        Some(seconds) => {
            // Nothing happens to a run without its files, and its id is needed to send them: it is told at once.
            let seconds = if created.awaiting_upload { 0 } else { seconds.min(MAX_WAIT_SECONDS) };
            finished(&app, created.run_id, Duration::from_secs(seconds)).await?
        }
        None => Json(created).into_response(),
    };
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().extend(location.map(|location| (Some(header::LOCATION), location)));
    if let Some(seconds) = preferred.filter(|_| asked.is_none()) {
        preference_applied(&mut response, seconds);
    }
    Ok(response)
}

/// Says that the client's preference was followed.
pub(super) fn preference_applied(response: &mut Response, seconds: u64) {
    if let Ok(applied) = HeaderValue::from_str(&format!("wait={seconds}")) {
        response.headers_mut().insert(http::HeaderName::from_static("preference-applied"), applied);
    }
}

/// The job as it is after the wait, with its result when it is final.
async fn finished(app: &App, run: RunId, at_most: Duration) -> Result<Response, Problem> {
    let orchestrator = app.orchestrator();
    tokio::select! {
        waited = orchestrator.wait(run, at_most) => drop(waited?),
        // The run's state is told all the same; the client can ask again later.
        () = app.closed() => {}
    }
    let job = orchestrator.job(run)?;
    let result = if job.status.is_final() { Some(result_of(orchestrator.layout().run(run)).await?) } else { None };
    Ok(Json(Finished { job, result }).into_response())
}

/// The job as it is after a wait.
#[derive(Serialize)]
struct Finished {
    #[serde(flatten)]
    job: Job,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

/// `Prefer: wait=30`. Preferences are wishes: one that cannot be read is ignored.
pub(super) fn preferred_wait(headers: &HeaderMap) -> Option<u64> {
    let values = headers.get_all("prefer").into_iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split([',', ';'])).filter_map(|part| part.split_once('='));
    let (_, seconds) = preferences.find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))?;
    whole_number(seconds.trim().trim_matches('"'))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| !text.trim().is_empty() && text.len() <= MAX_KEY_BYTES);
    match text {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Problem::InvalidRequest {
            message: format!("Idempotency-Key must be 1 to {MAX_KEY_BYTES} visible ASCII characters"),
            details: Vec::new(),
        }),
    }
}
