//! A run's own copy of its skill.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::files::{self, Error, open_beneath};

/// Copies these files of a skill into a run and returns their bytes. An edit of the skill does not reach the copy.
pub(crate) fn copy_skill(from: &Path, paths: &[impl AsRef<Path>], to: &Path) -> Result<u64, Error> {
    files::create_folder(to)?;
    let mut bytes = 0;
    for path in paths {
        let (source, target) = (from.join(path), to.join(path));
        let opened = open_beneath(from, path.as_ref()).map_err(Error::on("read the skill's file", &source))?;
        files::create_parent(&target)?;
        bytes += files::copy_new(&opened, &target)?;
    }
    Ok(bytes)
}

/// Writes a skill that is only in memory into a run and returns its bytes.
pub(crate) fn write_skill(texts: &BTreeMap<String, String>, to: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    for (path, text) in texts {
        let target = to.join(path);
        files::create_parent(&target)?;
        files::step("write", &target)?;
        fs::write(&target, text).map_err(Error::on("write", &target))?;
        bytes += text.len() as u64;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

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
