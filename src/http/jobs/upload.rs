//! `POST …/{id}/upload`: receives the files of a run, and its skill if the run brings its own.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use crate::domain::command::Refusal;
use crate::http::answer::problem::Problem;
use crate::http::jobs::create::finished;
use crate::http::request::multipart::{Expected, ReceivedPart, receive};
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::request::wait::{MAX_WAIT_SECONDS, preferred_wait};
use crate::http::server::grant::{Access, Granted};
use crate::http::state::app::App;
use crate::http::state::task::through;
use crate::orchestrator::{Delivery, Error, Uploaded};
use crate::workspace::{Sent, SentPart};

pub(crate) async fn upload(
    State(app): State<App>,
    granted: Granted,
    asked: RunInPath,
    mut query: Query,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    let wait = query.whole("wait")?.or(preferred_wait(&headers)).filter(|seconds| *seconds > 0);
    query.finish()?;
    if asked.state.temporary {
        // The upload brings the skill.
        granted.require(Access::Admin)?;
    }
    // Checked again with the upload itself; here it only saves the client from sending the body.
    if asked.state.status().is_final() {
        return Err(Error::from(Refusal::RunFinal { status: asked.state.status() }).into());
    }
    if !asked.state.awaiting_upload {
        return Err(Error::from(Refusal::AlreadyUploaded).into());
    }
    app.orchestrator().ready()?;
    let expected = if asked.state.temporary { Expected::FilesAndPackage } else { Expected::Files };
    let received = receive(&app, request, expected).await?;
    let orchestrator = app.orchestrator().clone();
    let run = asked.run();
    let uploaded = through(async move {
        let part = |part: &ReceivedPart| SentPart {
            field: part.field.clone(),
            file_name: part.file_name.clone(),
            path: part.file.clone(),
        };
        let files = Sent { zip: received.zip.clone(), parts: received.parts.iter().map(part).collect() };
        let uploaded = orchestrator.upload(run, Delivery { files, package: received.package.clone() }).await;
        received.remove().await;
        uploaded
    });
    let uploaded: Uploaded = uploaded.await?;
    match wait {
        Some(seconds) => finished(&app, run, Duration::from_secs(seconds.min(MAX_WAIT_SECONDS))).await,
        None => Ok(Json(uploaded).into_response()),
    }
}
