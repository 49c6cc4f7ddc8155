//! Questions about runs: where a field came from, why a result was shared or not, a run as one file or as a zip.

pub(crate) mod backup;
pub(crate) mod bundle;
pub(crate) mod check_run;
pub(crate) mod explain;
pub(crate) mod explain_cache;
pub(crate) mod explain_failure;
pub(crate) mod export;
pub(crate) mod hit_folder;
pub(crate) mod listing;
pub(crate) mod migrate;
pub(crate) mod nodes;
pub(crate) mod pace;
pub(crate) mod proven_run;
pub(crate) mod readings;
pub(crate) mod scrub;
pub(crate) mod send_telemetry;

pub use bundle::OpenedBundle;
pub use explain_cache::{CacheOutcome, CacheStory, DifferingPart};
pub use export::Export;
