//! Why a package is not installed.

use std::path::Path;

use semver::Version;

use super::installed::NotUsable;
use crate::files;
use crate::skill::Finding;

/// A package that is not installed; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum InstallRefused {
    /// The package breaks the rules.
    #[error("the package breaks {} rules; correct what the findings name", findings.len())]
    Package {
        /// All that is wrong with it.
        findings: Vec<Finding>,
    },
    /// The same or a newer version is there.
    #[error("{skill_id} {installed} is installed, and {given} is not newer; raise version in assets/runner.json")]
    NotNewer { skill_id: String, installed: Version, given: Version },
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] files::Error),
}

impl InstallRefused {
    /// For `map_err`: why the package in this folder could not be read.
    pub(crate) fn of(folder: &Path) -> impl FnOnce(NotUsable) -> Self {
        move |why| match why.shortage(folder) {
            Some(error) => Self::Io(error),
            None => Self::Package { findings: why.findings() },
        }
    }
}
