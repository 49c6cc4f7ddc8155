//! Work that outlives a client's patience, and work that waits for the disk.

use std::future::Future;

use tracing::{Instrument, Span};

use crate::http::answer::problem::Problem;

/// See an operation through, even if the client goes away meanwhile: half of it would be worse than none.
pub(crate) async fn through<T, E>(work: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, Problem>
where
    T: Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    tokio::spawn(work.in_current_span()).await.map_err(|_| Problem::Panicked)?.map_err(Into::into)
}

/// Do what waits for the disk where waiting holds up nobody.
pub(crate) async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, Problem>
where
    T: Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    let span = Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(|_| Problem::Panicked)?.map_err(Into::into)
}
