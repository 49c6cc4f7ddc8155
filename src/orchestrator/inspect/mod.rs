//! Questions about runs: where a field came from, why a result was shared or not, a run as one file.

pub(crate) mod explain;
pub(crate) mod explain_cache;
pub(crate) mod export;

pub use explain_cache::{CacheOutcome, CacheStory, DifferingPart};
pub use export::Export;
