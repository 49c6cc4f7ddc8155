//! A run's own copy of its skill.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::{Error, LookupError, open_beneath};

/// Copies these files of a skill into a run and returns their bytes. Shared extents where the file system has
/// them, else plain copies; never hard links, since an edit in place of the skill would then reach the run.
pub fn copy_skill(from: &Path, files: &[impl AsRef<Path>], to: &Path) -> Result<u64, Error> {
    fs::create_dir_all(to).map_err(Error::on("create", to))?;
    let mut bytes = 0;
    let mut share = true;
    for file in files {
        let source = open_beneath(from, file.as_ref()).map_err(|error| unreadable(from, file.as_ref(), error))?;
        let target = to.join(file);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(Error::on("create", folder))?;
        }
        bytes += copy_file(&source, &target, &mut share).map_err(Error::on("copy to", &target))?;
    }
    Ok(bytes)
}

/// Writes a skill that lies in no folder into a run and returns its bytes.
pub fn write_skill(files: &BTreeMap<String, String>, to: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    for (file, text) in files {
        let target = to.join(file);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(Error::on("create", folder))?;
        }
        fs::write(&target, text).map_err(Error::on("write", &target))?;
        bytes += text.len() as u64;
    }
    Ok(bytes)
}

fn copy_file(mut source: &File, target: &Path, share: &mut bool) -> io::Result<u64> {
    let found = source.metadata()?;
    let mode = if found.mode() & 0o111 == 0 { 0o644 } else { 0o755 };
    let mut target = OpenOptions::new().write(true).create_new(true).mode(mode).open(target)?;
    if *share && rustix::fs::ioctl_ficlone(&target, source).is_ok() {
        return Ok(found.len());
    }
    // A file system that cannot share once cannot share the next file either.
    *share = false;
    io::copy(&mut source, &mut target)
}

fn unreadable(from: &Path, file: &Path, error: LookupError) -> Error {
    Error { action: "read the skill's file", path: from.join(file), source: io::Error::other(error) }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_edit_in_place_of_the_skill_never_reaches_the_copy_and_scripts_stay_executable() {
        let folder = tempfile::tempdir().unwrap();
        let (skill, copy) = (folder.path().join("skill"), folder.path().join("run/.codex/skills/skill"));
        fs::create_dir_all(skill.join("scripts")).unwrap();
        fs::write(skill.join("SKILL.md"), "before").unwrap();
        fs::write(skill.join("scripts/run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(skill.join("scripts/run.sh"), Permissions::from_mode(0o700)).unwrap();
        assert_eq!(copy_skill(&skill, &["SKILL.md", "scripts/run.sh"], &copy).unwrap(), 16);
        fs::OpenOptions::new().write(true).open(skill.join("SKILL.md")).unwrap().set_len(0).unwrap();
        fs::set_permissions(skill.join("scripts/run.sh"), Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fs::read_to_string(copy.join("SKILL.md")).unwrap(), "before");
        let mode = |file: &str| fs::metadata(copy.join(file)).unwrap().mode() & 0o111 != 0;
        assert_eq!((mode("SKILL.md"), mode("scripts/run.sh")), (false, true));
    }

    #[test]
    fn a_link_in_a_skill_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (skill, copy) = (folder.path().join("skill"), folder.path().join("copy"));
        fs::create_dir(&skill).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink("../secret", skill.join("innocent")).unwrap();
        let error = copy_skill(&skill, &["innocent"], &copy).unwrap_err();
        assert_eq!((error.action, error.path), ("read the skill's file", skill.join("innocent")));
        assert!(!copy.join("innocent").exists());
    }
}
