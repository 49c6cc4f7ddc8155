//! Looks into a finished run: where a field came from, what the cache did, the export.

pub(crate) mod audit;
pub(crate) mod explain;
pub(crate) mod explain_cache;
pub(crate) mod export;
