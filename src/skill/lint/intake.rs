//! Where a package comes from, which decides how strictly it is checked.

use super::super::finding::Finding;

/// Where a package comes from: a rule that is newer than installed packages is an error for new ones only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// An upload, or an author's folder: every rule holds.
    New,
    /// It is already in the skills folder: what used to be legal is a warning.
    Installed,
}

impl Intake {
    /// The finding with the severity it has for such a package, when the rule is newer than some packages.
    pub(crate) fn grade(self, finding: Finding) -> Finding {
        match self {
            Self::New => finding,
            Self::Installed => finding.into_warning(),
        }
    }
}
