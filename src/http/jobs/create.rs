//! `POST /v1/jobs` and `POST /v1/temp-skill-runs`: creates a run; with `wait`, the answer has its result.

use std::future::Future;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::domain::ids::RunId;
use crate::domain::trace_context::TraceParent;
use crate::http::answer::problem::Problem;
use crate::http::request::json_body::JsonBody;
use crate::http::request::query::Query;
use crate::http::request::wait::{MAX_WAIT_SECONDS, Waited, preference_applied, preferred_wait};
use crate::http::server::grant::{Access, Granted};
use crate::http::server::header::one;
use crate::http::state::app::App;
use crate::http::state::run_span::record_run;
use crate::http::state::task::through;
use crate::orchestrator::{CreateRequest, Created, Error, Planned};
use crate::projection::Job;

const MAX_KEY_BYTES: usize = 256;

pub(crate) async fn create(
    State(app): State<App>,
    granted: Granted,
    query: Query,
    headers: HeaderMap,
    JsonBody(mut request, place): JsonBody<CreateRequest>,
) -> Result<Response, Problem> {
    request.requested_by = granted.by();
    request.traceparent = trace_parent(&headers);
    if !request.engine_configs.is_empty() {
        granted.require(Access::Admin)?;
    }
    let orchestrator = app.orchestrator().clone();
    let make = async move |key: Option<String>| {
        let _until_created = place;
        orchestrator.create(request, key.as_deref()).await
    };
    created(app, query, headers, "/v1/jobs", make).await
}

/// Whether a run could be created; a request that is refused is refused like the creation itself. Nothing is created.
pub(crate) async fn check(
    State(app): State<App>,
    granted: Granted,
    query: Query,
    JsonBody(request, place): JsonBody<CreateRequest>,
) -> Result<Json<Planned>, Problem> {
    query.finish()?;
    if !request.engine_configs.is_empty() {
        granted.require(Access::Admin)?;
    }
    let planned = app.orchestrator().check(request).await?;
    drop(place);
    Ok(Json(planned))
}

/// A run of a skill that comes with the upload and is this run's alone.
pub(crate) async fn create_temp(
    State(app): State<App>,
    granted: Granted,
    query: Query,
    headers: HeaderMap,
    JsonBody(mut request, place): JsonBody<CreateRequest>,
) -> Result<Response, Problem> {
    request.requested_by = granted.by();
    request.traceparent = trace_parent(&headers);
    let orchestrator = app.orchestrator().clone();
    let make = async move |key: Option<String>| {
        let _until_created = place;
        orchestrator.create_temp(request, key.as_deref()).await
    };
    created(app, query, headers, "/v1/temp-skill-runs", make).await
}

pub(crate) async fn created<F>(
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
    record_run(created.run_id);
    let location = HeaderValue::from_str(&format!("{prefix}/{}", created.request_id)).ok();
    let wait = asked.or(preferred).filter(|seconds| *seconds > 0);
    let mut response = match wait {
        Some(seconds) => {
            // The run does not start before its files are uploaded, and the client needs its id for that: answer at once.
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

/// The job as it is after the wait, with its result when it is final.
pub(crate) async fn finished(app: &App, run: RunId, at_most: Duration) -> Result<Response, Problem> {
    let orchestrator = app.orchestrator();
    let began = Instant::now();
    tokio::select! {
        waited = orchestrator.wait(run, at_most) => drop(waited?),
        // The job is returned as it is; the client can ask again later.
        () = app.closed() => {}
    }
    let waited = Waited(began.elapsed());
    let (job, state) = orchestrator.job_and_state(run).await?;
    let made = async {
        let result = if job.status.is_final() { Some(orchestrator.result(&state).await?) } else { None };
        Ok(Json(Finished { job, result }).into_response())
    };
    let mut response = app.room().make(made).await?;
    response.extensions_mut().insert(waited);
    Ok(response)
}

/// The job as it is after a wait.
#[derive(Serialize)]
struct Finished {
    #[serde(flatten)]
    job: Job,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

/// The trace that a request belongs to. A header that is wrong is ignored, as the standard says.
pub(crate) fn trace_parent(headers: &HeaderMap) -> Option<Box<str>> {
    let given = one(headers, &HeaderName::from_static("traceparent"))?;
    Some(TraceParent::parse(given)?.to_string().into())
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    const NAME: HeaderName = HeaderName::from_static("idempotency-key");
    if !headers.contains_key(NAME) {
        return Ok(None);
    }
    let is_visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let is_key = |text: &&str| (1..=MAX_KEY_BYTES).contains(&text.len()) && text.bytes().all(is_visible);
    match one(headers, &NAME).filter(is_key) {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Problem::InvalidRequest {
            message: format!("Idempotency-Key must be given once, with 1 to {MAX_KEY_BYTES} visible ASCII characters"),
            details: Vec::new(),
        }),
    }
}
