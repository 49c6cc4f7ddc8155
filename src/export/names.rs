//! Which files of a run are in an export.

use crate::domain::file_name;
use crate::domain::run_file::{RunFile, RunFolder};

pub const EVENTS: &str = RunFile::Events.name();

/// Files of a run that are exported where they exist, besides everything in [`FOLDERS`].
pub(crate) const FILES: [RunFile; 8] = [
    RunFile::Events,
    RunFile::Input,
    RunFile::Prompt,
    RunFile::Pty,
    RunFile::Stderr,
    RunFile::Stdout,
    RunFile::Manifest,
    RunFile::Skill,
];

/// Folders of a run that are exported with all their files.
pub(crate) const FOLDERS: [RunFolder; 3] = [RunFolder::Artifacts, RunFolder::Raw, RunFolder::Result];

/// Whether an export holds this file of its run.
pub(crate) fn is_exported(name: &str) -> bool {
    FOLDERS.iter().any(|folder| folder.strip(name).is_some()) || FILES.iter().any(|file| file.name() == name)
}

/// Why a file of this name cannot be in an export, or nothing. Whoever unpacks an export gets files below one folder, on
/// any system, and only those that a run has.
pub(crate) fn name_objection(name: &str) -> Option<&'static str> {
    let objections = [
        (name.len() > usize::from(u16::MAX), "its path is too long"),
        (name.contains('\0'), "it contains a NUL character"),
        (name.split('/').any(|part| part.is_empty() || part == "." || part == ".."), "it is no path in a folder"),
        (!is_exported(name), "it is none of the files that an export has"),
    ];
    let objection = objections.into_iter().find_map(|(holds, reason)| holds.then_some(reason));
    objection.or_else(|| file_name::objection(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::check_shown;

    #[test]
    fn an_export_has_only_files_that_may_be_shown() {
        for file in FILES {
            assert_eq!(check_shown(file.name()), Ok(()), "{file:?}");
        }
        for folder in FOLDERS {
            assert_eq!(check_shown(&folder.join("a/b")), Ok(()), "{folder:?}");
        }
    }
}
