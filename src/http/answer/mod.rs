//! Answers: errors in their envelope, files, documents of a run.

pub(crate) mod envelope;
pub(crate) mod file;
pub(crate) mod problem;
pub(crate) mod run_file;
pub(crate) mod status;
