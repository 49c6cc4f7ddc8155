//! What the registry answers: a usable skill, or why there is none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::domain::codes::FindingCode;
use crate::files::{self, Shortage};
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
    /// The machine had nothing left to read it with. That says nothing about the package.
    #[error("{}", .0.told())]
    Unread(Shortage),
}

impl From<Shortage> for NotUsable {
    fn from(shortage: Shortage) -> Self {
        Self::Unread(shortage)
    }
}

impl NotUsable {
    /// The same as findings, for those who show them.
    pub fn findings(self) -> Vec<Finding> {
        let unreadable = |message: &str, hint| vec![Finding::error(FindingCode::Unreadable, "", message, hint)];
        match self {
            Self::NotFound => unreadable("no such skill is installed", "install it"),
            Self::Invalid { findings } => findings,
            Self::Unread(shortage) => unreadable(shortage.told(), "try again later"),
        }
    }

    /// What the machine had too little of, as the error of reading a folder.
    pub(crate) fn shortage(&self, folder: &Path) -> Option<files::Error> {
        match self {
            Self::Unread(shortage) => Some(files::Error::on("read", folder)(*shortage)),
            Self::NotFound | Self::Invalid { .. } => None,
        }
    }
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
