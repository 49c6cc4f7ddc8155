//! What a maker is told: the environments to make, as JSON on its standard input.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The argument that makes this program a maker.
pub(crate) const MAKE: &str = "make-python-environment";

/// Environments to make, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) environments: Vec<Wanted>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) id: String,
    /// Where it has to be.
    pub(crate) folder: PathBuf,
    /// As the skill has them.
    pub(crate) requirements: Vec<String>,
    /// The same for the installer, with whole paths.
    pub(crate) lines: Vec<String>,
    /// The versions of Python that fit.
    pub(crate) python: Option<String>,
}
