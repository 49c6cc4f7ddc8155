//! `GET /v1/jobs/{id}/bundle`: the run as one zip.

use axum::http::HeaderMap;
use axum::response::Response;

use crate::http::answer::file::{FileAnswer, answer};
use crate::http::answer::problem::Problem;
use crate::http::request::run_in_path::RunInPath;
use crate::http::server::task::blocking;
use crate::orchestrator::Error;
use crate::workspace::open_beneath;

pub(crate) async fn bundle(asked: RunInPath, headers: HeaderMap) -> Result<Response, Problem> {
    let status = asked.state.status;
    if !status.is_final() {
        return Err(Problem::BundleNotReady { status });
    }
    let debug = asked.state.options.debug;
    let paths = asked.paths;
    let file = blocking(move || {
        let path = paths.bundle(debug);
        let relative = path.strip_prefix(&paths.root).unwrap_or(&path);
        let file = open_beneath(&paths.root, relative).map_err(|error| Error::Io {
            doing: format!("open {}", path.display()),
            source: std::io::Error::other(error),
        })?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        FileAnswer::new(file, name, "application/zip".to_owned(), None)
    })
    .await?;
    answer(file, &headers)
}
