//! `GET /v1/jobs/{id}/bundle`: the run as one zip.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::http::answer::problem::Problem;
use crate::http::attachment::{FileAnswer, answer};
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;

pub(crate) async fn bundle(State(app): State<App>, asked: RunInPath, headers: HeaderMap) -> Result<Response, Problem> {
    let status = asked.state.status();
    if !status.is_final() {
        return Err(Problem::BundleNotReady { status });
    }
    let floor = app.orchestrator().settings().limits.min_free_bytes;
    let bundle = app.orchestrator().log().bundle(asked.run(), floor).await?;
    let file = FileAnswer::new(bundle.file, bundle.name.to_owned(), "application/zip".to_owned(), None)?;
    answer(file, &headers)
}
