//! The routes of the example client: its pages, the recordings, and everything that is passed on to the service.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Json, Router, middleware};
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::cli::e2e_client::answers::no_route;
use crate::cli::e2e_client::forward::forward;
use crate::cli::e2e_client::gate::guard;
use crate::cli::e2e_client::state::Shared;
use crate::http::embedded_file;

/// The page that every address gets; its script reads the address.
const SHELL: &str = "e2e.html";

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/{*path}", any(forward))
        .route("/client", get(about))
        .route("/client/recordings", get(recordings))
        .route("/client/recordings/{run}", get(recording))
        .route("/ui/static/{*path}", get(file))
        .fallback(page)
        // The service has limits of its own; what passes here is not kept.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// The service that is used.
async fn about(State(shared): State<Arc<Shared>>) -> Response {
    Json(json!({"service": shared.service.base()})).into_response()
}

async fn recordings(State(shared): State<Arc<Shared>>) -> Response {
    let recordings = shared.recordings.clone();
    let listed = spawn_blocking(move || recordings.list()).await;
    Json(listed.unwrap_or_default()).into_response()
}

async fn recording(State(shared): State<Arc<Shared>>, Path(run): Path<String>, request: Request) -> Response {
    let recordings = shared.recordings.clone();
    match spawn_blocking(move || recordings.read(&run)).await {
        Ok(Some(recording)) => Json(recording).into_response(),
        Ok(None) | Err(_) => no_route(request.uri().path()),
    }
}

async fn file(Path(path): Path<String>, request: Request) -> Response {
    embedded_file(&path, request.headers()).unwrap_or_else(|| no_route(request.uri().path()))
}

async fn page(request: Request) -> Response {
    let path = request.uri().path();
    let is_page =
        request.method() == Method::GET && !["/v1", "/client", "/ui"].iter().any(|other| path.starts_with(other));
    let page = is_page.then(|| embedded_file(SHELL, request.headers())).flatten();
    page.unwrap_or_else(|| no_route(path))
}
