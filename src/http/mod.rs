//! The REST API over the orchestrator.

use std::future::Future;

use crate::orchestrator::Orchestrator;

/// Serve the API until told to stop; open event streams are ended then.
pub async fn serve(
    listener: tokio::net::TcpListener,
    orchestrator: Orchestrator,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let _ = (listener, orchestrator);
    stop.await;
    Ok(())
}
