//! The channel that carries a run's events to the screen.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::cli::failure::Failure;

/// Events that may wait to be shown.
pub(crate) const EVENTS_WAITING: usize = 64;

/// A run's events as they come, ending with the terminal one.
pub(crate) type Events = mpsc::Receiver<Result<Bytes, Failure>>;
