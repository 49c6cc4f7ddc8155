//! Answers: errors in their envelope, documents of a run.

pub(crate) mod envelope;
pub(crate) mod error_status;
pub(crate) mod problem;
