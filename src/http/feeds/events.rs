//! `GET /v1/jobs/{id}/events`: the run's log as a stream of events.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::domain::ids::Seq;
use crate::http::answer::problem::Problem;
use crate::http::feeds::sse::Follow;
use crate::http::request::query::{Query, whole_number};
use crate::http::request::run_in_path::RunInPath;
use crate::http::server::access::TICKET;
use crate::http::server::grant::Granted;
use crate::http::state::app::App;
use crate::http::state::pass::Pass;

pub(crate) async fn events(
    State(app): State<App>,
    granted: Granted,
    asked: RunInPath,
    mut query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let cursor = cursor(query.text("cursor"), Some("cursor"))?;
    // Looked at before; it must not be told to anybody.
    drop(query.text(TICKET));
    query.finish()?;
    let last_seen = headers.get("last-event-id").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let cursor = cursor.max(self::cursor(last_seen, None)?);
    // Watch before reading: an append between the two would be missed.
    let head = app.orchestrator().log().watch(asked.run());
    let state = app.orchestrator().state(asked.run()).await?;
    if state.status().is_final() && cursor >= state.head_seq {
        // The reader has it all. An EventSource comes back after every end; this answer tells it not to.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if state.status().is_final() {
        // Read before the answer begins: a log that is damaged is an answer of its own.
        app.orchestrator().log().read(asked.run(), cursor, 1).await?;
    }
    let pass = Pass::new(&app, granted.credential());
    let body = Body::from_stream(Follow::new(app, pass, state, head, cursor).stream());
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that collect answers would hold events back.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, body).into_response())
}

fn cursor(given: Option<String>, parameter: Option<&'static str>) -> Result<Seq, Problem> {
    let Some(text) = given else { return Ok(Seq::START) };
    let wrong = || Problem::InvalidCursor { given: text.chars().take(40).collect(), parameter };
    whole_number(&text).map(Seq).ok_or_else(wrong)
}
