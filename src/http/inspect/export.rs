//! `GET /v1/jobs/{id}/export`: a finished run as one file, for `skill-runner audit` and `replay`.

use std::io::{BufWriter, Write};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::files::WithinRoom;
use crate::http::answer::problem::Problem;
use crate::http::attachment::{FileAnswer, answer};
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::orchestrator::Error;

pub(crate) async fn export(
    State(app): State<App>,
    asked: RunInPath,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query.finish()?;
    let status = asked.state.status();
    if !status.is_final() {
        return Err(Problem::result_not_ready(&asked.state));
    }
    let (log, run) = (app.orchestrator().log().clone(), asked.run());
    let data = app.orchestrator().layout().data().to_owned();
    let floor = app.orchestrator().settings().limits.min_free_bytes;
    let export = log.export(run).await?;
    // The service writes it to its own disk before it sends it.
    let held = app.export_room().take(app.orchestrator(), export.bytes())?;
    let file = blocking(move || {
        // Without a name, so that it is gone as soon as it is sent, or if this process dies.
        let file = tempfile::tempfile_in(&data).map_err(Error::io("create a temporary file for the export"))?;
        // Others write meanwhile.
        let mut out = BufWriter::with_capacity(256 * 1024, WithinRoom::new(&file, &data, floor));
        let written = export.write(&mut out)?;
        out.flush().map_err(Error::io("write the export"))?;
        drop(out);
        let answer = FileAnswer::new(file, format!("{run}.zip"), "application/zip".to_owned(), Some(written.seal))?;
        Ok::<_, Problem>(answer.holding(held))
    })
    .await?;
    answer(file, &headers)
}
