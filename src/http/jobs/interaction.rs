//! `interaction/pending` and `interaction/reply`: the open question of a run, and its answer.
//!
//! A reply that comes too late is refused by the orchestrator; `answer/error_status.rs` makes it a 409.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;

use crate::bounded::whole;
use crate::domain::interaction::InteractionId;
use crate::http::answer::problem::Problem;
use crate::http::request::at_seq::past;
use crate::http::request::json_body::JsonBody;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::server::grant::Granted;
use crate::http::state::app::App;
use crate::http::state::task::through;
use crate::orchestrator::{PendingQuestion, Replied};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reply {
    #[serde(deserialize_with = "whole::number")]
    interaction_id: u64,
    response: Value,
    #[serde(default)]
    idempotency_key: Option<String>,
}

pub(crate) async fn pending(
    State(app): State<App>,
    asked: RunInPath,
    query: Query,
) -> Result<Json<PendingQuestion>, Problem> {
    let past = past(&app, &asked, query).await?;
    let state = past.as_ref().map_or(&asked.state, |past| &past.state);
    Ok(Json(PendingQuestion::of(state)?))
}

pub(crate) async fn reply(
    State(app): State<App>,
    granted: Granted,
    asked: RunInPath,
    JsonBody(reply, place): JsonBody<Reply>,
) -> Result<Json<Replied>, Problem> {
    let orchestrator = app.orchestrator().clone();
    let run = asked.run();
    let Reply { interaction_id, response, idempotency_key } = reply;
    let replied = async move {
        let _until_replied = place;
        orchestrator.reply(run, InteractionId(interaction_id), response, idempotency_key, granted.by()).await
    };
    through(replied).await.map(Json)
}
