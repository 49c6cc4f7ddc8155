//! The run that the current request is about, for the lines that are logged for it.

use tracing::Span;
use tracing::field::display;

use crate::domain::ids::RunId;

/// Adds the run to the span of the current request.
pub(crate) fn record_run(run: RunId) {
    Span::current().record("run.id", display(run));
}
