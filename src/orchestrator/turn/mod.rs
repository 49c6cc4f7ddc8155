//! One turn of a run's engine: prepared, started, watched, judged, normalized, concluded.

pub(crate) mod conclude;
pub(crate) mod hybrid;
pub(crate) mod judge;
pub(crate) mod last_files;
pub(crate) mod normalize;
pub(crate) mod prepare;
pub(crate) mod prepare_cli;
pub(crate) mod process;
pub(crate) mod raw_files;
pub(crate) mod reader;
pub(crate) mod repair;
pub(crate) mod result_file;
pub(crate) mod watch;
