//! Why a package is not installed.

use semver::Version;

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
