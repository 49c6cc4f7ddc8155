//! Questions about runs: where a field came from, why a result was shared or not, a run as one file or as a zip.

pub(crate) mod bundle;
pub(crate) mod explain;
pub(crate) mod explain_cache;
pub(crate) mod explain_failure;
pub(crate) mod export;
pub(crate) mod hit_folder;
pub(crate) mod listing;

pub use bundle::OpenedBundle;
pub use explain_cache::{CacheOutcome, CacheStory, DifferingPart};
pub use export::Export;
