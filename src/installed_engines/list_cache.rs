//! What a CLI listed as its models, kept for a while.

use std::time::Instant;

use super::model_names::Model;

/// The answer of a CLI, and when and of which program it was.
pub(crate) struct Listed {
    pub(crate) since: Instant,
    pub(crate) program: String,
    pub(crate) answer: Result<Vec<Model>, String>,
}
