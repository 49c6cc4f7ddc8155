//! Where a package comes from, which decides how strictly it is checked.

/// Where a package comes from: a rule that is newer than installed packages is an error for new ones only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// An upload, or an author's folder: every rule holds.
    New,
    /// It is already in the skills folder: what used to be legal is a warning.
    Installed,
}
