//! `GET /v1/management/nodes`: the services that share the store. `POST …/nodes/{id}/drain`: one of them starts no more runs.

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::domain::releases;
use crate::domain::time::Timestamp;
use crate::http::answer::problem::Problem;
use crate::http::request::json_body::{JsonBody, JsonBodyOrNone};
use crate::http::request::path_params::path_params;
use crate::http::request::query::Query;
use crate::http::state::app::App;
use crate::store::{Node, NodeId};

/// The body of a drain; without one it is to drain.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Drain {
    draining: Option<bool>,
}

pub(crate) async fn all(State(app): State<App>, query: Query) -> Result<Json<Value>, Problem> {
    query.finish()?;
    let own = app.orchestrator().node();
    let nodes = app.orchestrator().nodes().await?;
    let alive = nodes.iter().filter(|node| node.lease_left.is_some());
    let warning = releases::warning(alive.map(|node| node.version.as_str()));
    let nodes: Vec<Value> = nodes.iter().map(|node| shown(node, own)).collect();
    Ok(Json(json!({"nodes": nodes, "warning": warning})))
}

pub(crate) async fn drain(
    State(app): State<App>,
    mut parts: Parts,
    JsonBodyOrNone(body): JsonBodyOrNone<Drain>,
) -> Result<Json<Value>, Problem> {
    let given = path_params(&mut parts).await?.remove("id").unwrap_or_default();
    let unknown = || Problem::NodeNotFound { id: given.chars().take(64).collect() };
    let node: Uuid = given.parse().map_err(|_| unknown())?;
    let draining = body.and_then(|JsonBody(body, _)| body.draining).unwrap_or(true);
    if !app.orchestrator().drain_node(NodeId(node), draining).await? {
        return Err(unknown());
    }
    Ok(Json(json!({"node_id": node, "draining": draining})))
}

fn shown(node: &Node, own: Option<NodeId>) -> Value {
    let millis = |left: std::time::Duration| u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    json!({
        "node_id": node.node,
        "name": node.name,
        "version": node.version,
        "address": node.address,
        "answers_this_request": own == Some(node.node),
        "works": node.works,
        "draining": node.draining,
        "running": node.load.running,
        "slots": node.load.slots,
        "leases": node.owns,
        "joined_at": Timestamp::from_micros(node.joined_at),
        "alive": node.lease_left.is_some(),
        "lease_left_ms": node.lease_left.map(millis),
    })
}
