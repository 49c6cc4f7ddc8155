//! What a run says while it goes on: its events as a stream or a page, and its logs.

pub(crate) mod events;
pub(crate) mod frames;
pub(crate) mod history;
pub(crate) mod logs;
pub(crate) mod sse;
