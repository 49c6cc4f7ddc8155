//! `interaction/pending` and `interaction/reply`: what a run asks, and the answer.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;

use super::app::{App, through};
use super::asked_run::AskedRun;
use super::error::Problem;
use super::json_body::JsonBody;
use crate::domain::interaction::InteractionId;
use crate::orchestrator::{PendingQuestion, Replied};

/// An answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reply {
    interaction_id: u64,
    response: Value,
    #[serde(default)]
    idempotency_key: Option<String>,
}

pub(super) async fn pending(State(app): State<App>, asked: AskedRun) -> Result<Json<PendingQuestion>, Problem> {
    Ok(Json(app.orchestrator().pending(asked.run())?))
}

pub(super) async fn reply(
    State(app): State<App>,
    asked: AskedRun,
    JsonBody(reply): JsonBody<Reply>,
) -> Result<Json<Replied>, Problem> {
    let orchestrator = app.orchestrator().clone();
    let run = asked.run();
    let Reply { interaction_id, response, idempotency_key } = reply;
    through(async move { orchestrator.reply(run, InteractionId(interaction_id), response, idempotency_key).await })
        .await
        .map(Json)
}
