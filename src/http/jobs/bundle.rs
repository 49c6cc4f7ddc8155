//! `GET /v1/jobs/{id}/bundle`: the run as one zip.

use std::path::Path;

use axum::http::HeaderMap;
use axum::response::Response;

use crate::domain::run_file::RunFile;
use crate::files::open_beneath;
use crate::http::answer::problem::Problem;
use crate::http::attachment::{FileAnswer, answer};
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::task::blocking;
use crate::orchestrator::Error;

pub(crate) async fn bundle(asked: RunInPath, headers: HeaderMap) -> Result<Response, Problem> {
    let status = asked.state.status();
    if !status.is_final() {
        return Err(Problem::BundleNotReady { status });
    }
    let debug = asked.state.options.debug;
    let paths = asked.paths;
    let file = blocking(move || {
        let bundle = RunFile::bundle(debug);
        let path = paths.file(bundle);
        let file = open_beneath(&paths.root, Path::new(bundle.name())).map_err(|error| Error::Io {
            doing: format!("open {}", path.display()),
            source: std::io::Error::other(error),
        })?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        FileAnswer::new(file, name, "application/zip".to_owned(), None)
    })
    .await?;
    answer(file, &headers)
}
