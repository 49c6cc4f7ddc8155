//! `POST …/events/ticket`: what a page of another origin opens the event stream of one run with.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::request::run_in_path::RunInPath;
use crate::http::server::grant::Granted;
use crate::http::state::app::App;

pub(crate) async fn ticket(State(app): State<App>, granted: Granted, asked: RunInPath) -> Result<Json<Value>, Problem> {
    let now = app.orchestrator().now();
    let (ticket, expires_at) = app.access().make_ticket(asked.run(), granted.credential(), now).await?;
    Ok(Json(json!({"ticket": ticket, "expires_at": expires_at})))
}
