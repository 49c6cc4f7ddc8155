//! `/v1/jobs` and `/v1/temp-skill-runs`: a run from its creation to its result.

pub(crate) mod artifacts;
pub(crate) mod bundle;
pub(crate) mod cancel;
pub(crate) mod cleanup;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod interaction;
pub(crate) mod list;
pub(crate) mod rerun;
pub(crate) mod result;
pub(crate) mod status;
pub(crate) mod upload;
