//! Serves the API on a socket until it is stopped and the last answers are sent.

use std::future::Future;
use std::time::Duration;

use axum::serve::ListenerExt;
use tracing::warn;

use crate::http::router::routes;
use crate::http::state::app::{App, Changes};
use crate::orchestrator::Orchestrator;

/// How long answers may take after the stop.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// Serves the API until `stop` completes; open event streams end then.
pub async fn serve(
    listener: tokio::net::TcpListener,
    orchestrator: Orchestrator,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    serve_app(listener, App::new(orchestrator, Changes::Accepted), stop).await
}

/// Serves the API read-only: a request that would change something is refused.
pub(crate) async fn serve_read_only(
    listener: tokio::net::TcpListener,
    orchestrator: Orchestrator,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    serve_app(listener, App::new(orchestrator, Changes::Refused), stop).await
}

async fn serve_app(
    listener: tokio::net::TcpListener,
    app: App,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let routes = routes(app.clone());
    // Events are small and must not be delayed.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            warn!(%error, "TCP_NODELAY cannot be set; events may be delayed");
        }
    });
    let closing = app.clone();
    let stopped = async move {
        stop.await;
        closing.close();
    };
    let served = axum::serve(listener, routes).with_graceful_shutdown(stopped).into_future();
    let overdue = async {
        app.closed().await;
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    tokio::select! {
        ended = served => ended,
        // A client that does not read its answer must not delay the end.
        () = overdue => Ok(()),
    }
}
