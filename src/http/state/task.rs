//! Runs work to its end although the client may disconnect, and blocking work on its own threads.

use std::future::Future;

use tracing::{Instrument, Span};

use crate::http::answer::problem::Problem;

/// Runs an operation to its end even if the client disconnects: it must not stop halfway.
pub(crate) async fn through<T, E>(work: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, Problem>
where
    T: Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    tokio::spawn(work.in_current_span()).await.map_err(|_| Problem::Panicked)?.map_err(Into::into)
}

/// Runs blocking work on a thread where it delays no other request.
pub(crate) async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, Problem>
where
    T: Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    let span = Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(|_| Problem::Panicked)?.map_err(Into::into)
}
