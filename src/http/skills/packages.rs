//! `/v1/skill-packages`: installs a package, and shows the state of an installation.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::domain::codes::ErrorCode;
use crate::http::answer::problem::Problem;
use crate::http::request::multipart::receive_zip;
use crate::http::request::path_params::path_params;
use crate::http::request::query::Query;
use crate::http::request::wait::{MAX_WAIT_SECONDS, Waited, preference_applied, preferred_wait};
use crate::http::state::app::App;
use crate::http::state::task::through;
use crate::orchestrator::{Install, InstallStatus};

pub(crate) async fn install(State(app): State<App>, mut query: Query, request: Request) -> Result<Response, Problem> {
    let asked = query.whole("wait")?;
    query.finish()?;
    let preferred = preferred_wait(request.headers());
    app.orchestrator().ready()?;
    let zip = receive_zip(&app, request).await?;
    let orchestrator = app.orchestrator().clone();
    let taken = through(async move {
        let taken = orchestrator.install(zip.path().to_path_buf()).await;
        // It is unpacked by now, so the zip can be deleted.
        zip.remove().await;
        taken
    });
    let mut progress = taken.await?;
    let id = progress.borrow_and_update().request_id;
    let mut response = match asked.or(preferred).filter(|seconds| *seconds > 0) {
        Some(seconds) => {
            let at_most = Duration::from_secs(seconds.min(MAX_WAIT_SECONDS));
            let began = Instant::now();
            tokio::select! {
                // It has ended, or the wait is over and its state is returned as it is.
                _ = tokio::time::timeout(at_most, progress.wait_for(|install| install.status.is_final())) => {}
                () = app.closed() => {}
            }
            let install = progress.borrow().clone();
            let mut response = ended(&install);
            response.extensions_mut().insert(Waited(began.elapsed()));
            response
        }
        None => {
            (StatusCode::ACCEPTED, Json(json!({"request_id": id, "status": InstallStatus::Queued}))).into_response()
        }
    };
    let location = HeaderValue::from_str(&format!("/v1/skill-packages/{id}")).ok();
    response.headers_mut().extend(location.map(|location| (Some(header::LOCATION), location)));
    if let Some(seconds) = preferred.filter(|_| asked.is_none()) {
        preference_applied(&mut response, seconds);
    }
    Ok(response)
}

/// The state of an installation after a wait. One that failed is an error, with its envelope and with everything else that is known.
fn ended(install: &Install) -> Response {
    let Some(failure) = &install.error else { return (StatusCode::ACCEPTED, Json(install)).into_response() };
    let of_code = ErrorCode::from_text(&failure.code).and_then(|code| code.info().http);
    let status = of_code.and_then(|status| StatusCode::from_u16(status).ok());
    let mut body = json!(install);
    body["error"]["request_id"] = Value::Null;
    (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), Json(body)).into_response()
}

pub(crate) async fn one(State(app): State<App>, query: Query, mut parts: Parts) -> Result<Json<Install>, Problem> {
    query.finish()?;
    let given = path_params(&mut parts).await?.remove("id").unwrap_or_default();
    let unknown = || Problem::InstallNotFound { id: given.chars().take(64).collect() };
    let id: Uuid = given.parse().map_err(|_| unknown())?;
    app.orchestrator().install_of(id).await?.map(Json).ok_or_else(unknown)
}
