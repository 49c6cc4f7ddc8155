//! One turn of a run's engine: prepared, started, watched, judged, normalized, concluded. Also the end of a run at rest.

pub(crate) mod at_rest;
pub(crate) mod batch;
pub(crate) mod conclude;
pub(crate) mod confine;
pub(crate) mod confine_installer;
pub(crate) mod current;
pub(crate) mod deadline;
pub(crate) mod dependencies;
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
pub(crate) mod script_call;
pub(crate) mod start;
pub(crate) mod warnings;
pub(crate) mod watch;
