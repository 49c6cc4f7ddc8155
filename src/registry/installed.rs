//! What the registry answers: a usable skill, or why there is none.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::skill::{Finding, Skill};

#[derive(Debug, Clone)]
pub struct Installed {
    /// What the package says.
    pub skill: Arc<Skill>,
    pub dir: PathBuf,
    /// Every file of it, relative to the folder, sorted.
    pub files: Vec<String>,
    /// The files' content, where the package was generated from an agent's folder and is not on disk itself.
    pub(crate) generated: Option<BTreeMap<String, String>>,
}

/// Why there is no skill to give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUsable {
    /// Nothing is installed under that name.
    #[error("no such skill is installed")]
    NotFound,
    /// The package is there and broken.
    #[error("the installed package is broken: {}", summary(findings))]
    Invalid {
        /// All that is wrong with it.
        findings: Vec<Finding>,
    },
}

fn summary(findings: &[Finding]) -> String {
    findings.first().map(|finding| finding.message.clone()).unwrap_or_default()
}

/// One folder of the skills folder.
#[derive(Debug, Clone)]
pub enum Entry {
    Valid(Arc<Installed>),
    Invalid {
        folder: String,
        /// All that is wrong with it.
        findings: Vec<Finding>,
    },
}
