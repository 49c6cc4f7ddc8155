//! The demo skills that the program carries, so that it can show something on a machine that has nothing else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::installed::Installed;
use crate::domain::cache_key::sha256_hex;
use crate::skill::{Intake, PackageFiles, lint};

/// A file of a demo skill: the skill, its path in the skill, its content.
type File = (&'static str, &'static str, &'static [u8]);

include!(concat!(env!("OUT_DIR"), "/builtin_skills.rs"));

/// The ids of the demo skills.
pub(crate) fn ids() -> Vec<&'static str> {
    let mut ids: Vec<&str> = BUILTIN_SKILLS.iter().map(|(skill, _, _)| *skill).collect();
    ids.dedup();
    ids
}

pub(crate) fn has(id: &str) -> bool {
    ids().contains(&id)
}

/// A demo skill as the program has it, without a folder.
pub(crate) fn load(id: &str) -> Option<Installed> {
    let mut files = PackageFiles::new();
    for (_, path, content) in BUILTIN_SKILLS.iter().filter(|(skill, _, _)| *skill == id) {
        files.insert(*path, content.to_vec());
    }
    let skill = lint(id, &files, Intake::Installed).ok()?.into();
    let files = files.paths().map(str::to_owned).collect();
    Some(Installed { skill, dir: PathBuf::new(), files, generated: None })
}

/// Writes the demo skills below a folder, if they are not there; the skills folder that has them. Blocks.
pub(crate) fn write(below: &Path) -> io::Result<PathBuf> {
    let whole: Vec<u8> =
        BUILTIN_SKILLS.iter().flat_map(|(_, path, content)| [path.as_bytes(), content].concat()).collect();
    // Another version of the program has other skills.
    let folder = below.join(&sha256_hex(&whole)[..16]);
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(below)?;
    let unfinished = tempfile::Builder::new().prefix(".new-").tempdir_in(below)?;
    for (skill, path, content) in BUILTIN_SKILLS {
        let file = unfinished.path().join(skill).join(path);
        fs::create_dir_all(file.parent().unwrap_or(unfinished.path()))?;
        fs::write(&file, content)?;
    }
    match fs::rename(unfinished.path(), &folder) {
        // Another process was quicker, and has written the same.
        Err(_) if folder.is_dir() => Ok(folder),
        renamed => renamed.map(|()| folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_skills_are_written_once_and_are_those_of_the_repository() {
        let below = tempfile::tempdir().unwrap();
        let folder = write(below.path()).unwrap();
        assert_eq!(write(below.path()).unwrap(), folder);
        assert_eq!(fs::read_dir(below.path()).unwrap().count(), 1, "nothing unfinished is left");
        assert!(has("demo-echo") && has("demo-prime-number") && !has("demo") && !has("zotero-parse-attachment"));
        for id in ids() {
            let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills").join(id).join("assets/runner.json");
            assert_eq!(
                fs::read(folder.join(id).join("assets/runner.json")).unwrap(),
                fs::read(manifest).unwrap(),
                "{id}"
            );
        }
    }
}
