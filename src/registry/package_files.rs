//! The files of a package, in place or in the archive: one of them shown, all of them compared with another package's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::archive::archived;
use super::change::is_named;
use super::installed::Installed;
use super::load;
use super::scan::Registry;
use super::survey::Survey;
use crate::domain::cache_key::sha256_hex;
use crate::files::{Error, LookupError, Preview, for_each_chunk, open_beneath};
use crate::projection::check_shown_of_skill;
use crate::skill::changes::{BYTES_MAX, Change, Content, changes};
use crate::skill::{Intake, is_id};

/// Largest text that is compared line by line.
const TEXT_MAX: u64 = 256 * 1024;

impl Registry {
    /// The package of this version, named as for a rollback; the one in place if none is named.
    pub(crate) fn package(&self, id: &str, version: Option<&str>) -> Result<Option<Arc<Installed>>, Error> {
        let now = match self.lookup(id) {
            Ok(now) => Some(now),
            Err(why) => match why.shortage(&self.folder().join(id)) {
                Some(error) => return Err(error),
                None => None,
            },
        };
        let Some(version) = version else { return Ok(now) };
        if let Some(now) = now.filter(|now| is_named(&now.skill, version)) {
            return Ok(Some(now));
        }
        if !is_id(id) {
            return Ok(None);
        }
        let kept = archived(self.folder(), id)?;
        let kept = kept.into_iter().find(|one| one.skill.as_deref().is_some_and(|skill| is_named(skill, version)));
        let read = kept.and_then(|one| {
            let dir = self.folder().join(one.path);
            load::load(&dir, id, Survey::of(&dir)?, Intake::Installed)?.outcome.ok()
        });
        Ok(read.map(Arc::new))
    }
}

/// How often packages that are replaced while they are compared are looked up again.
const COMPARISONS: usize = 50;

/// Two packages, the earlier one first.
pub(crate) type Pair = [Option<Arc<Installed>>; 2];

/// Compares packages that somebody may replace meanwhile: `look` finds them. If they are
/// not the same afterwards, what was read may be another package's, and they are looked up again.
pub(crate) fn compare<E>(
    look: impl Fn() -> Result<Pair, E>,
    failed: impl Fn(LookupError) -> E,
) -> Result<(Pair, Vec<Change>), E> {
    let place = |package: &Option<Arc<Installed>>| {
        package.as_ref().map(|package| (package.dir.clone(), package.skill.fingerprint.clone()))
    };
    let mut packages = look()?;
    for left in (0..COMPARISONS).rev() {
        let [before, after] = &packages;
        let compared = after.as_ref().map_or_else(|| Ok(Vec::new()), |after| after.changes_since(before.as_deref()));
        let again = look()?;
        let same = packages.iter().map(place).eq(again.iter().map(place));
        match compared {
            Ok(changes) if same => return Ok((packages, changes)),
            Err(error) if same || left == 0 => return Err(failed(error)),
            Ok(_) | Err(_) => packages = again,
        }
    }
    let changing = io::Error::other("the packages kept changing while they were compared");
    Err(failed(LookupError::Io { source: changing }))
}

impl Installed {
    /// A file of the package as far as it can be shown, and its size. Of other files in the folder nothing is told.
    pub(crate) fn preview(&self, path: &str) -> Result<(u64, Preview), LookupError> {
        if !self.files.iter().any(|file| file == path) {
            return Err(LookupError::NotFound);
        }
        match &self.generated {
            Some(generated) => {
                let text = generated.get(path).ok_or(LookupError::NotFound)?;
                Ok((text.len() as u64, Preview::of_bytes(text.clone().into_bytes())))
            }
            None => {
                let mut file = open_beneath(&self.dir, Path::new(path))?;
                Preview::of(&mut file).map_err(|source| LookupError::Io { source })
            }
        }
    }

    /// The files that differ from an earlier package's; all of them if there is none.
    pub(crate) fn changes_since(&self, before: Option<&Self>) -> Result<Vec<Change>, LookupError> {
        let old = before.map(Self::digests).transpose()?.unwrap_or_default();
        let new = self.digests()?;
        // No more than that is ever compared line by line, so no more is held.
        let mut left = BYTES_MAX as u64;
        let (mut was, mut is) = (BTreeMap::new(), BTreeMap::new());
        let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for path in paths.into_iter().filter(|path| old.get(*path) != new.get(*path)) {
            for (package, digests, contents) in [(before, &old, &mut was), (Some(self), &new, &mut is)] {
                let (Some(package), Some(sha256)) = (package, digests.get(path)) else { continue };
                let text = package.text(path, TEXT_MAX.min(left))?;
                left = left.saturating_sub(text.as_ref().map_or(0, |text| text.len() as u64));
                let content = text.map_or_else(|| Content::Other { sha256: sha256.clone() }, Content::Text);
                contents.insert(path.clone(), content);
            }
        }
        Ok(changes(&was, &is))
    }

    /// Every file with its sha256.
    fn digests(&self) -> Result<BTreeMap<String, String>, LookupError> {
        if let Some(generated) = &self.generated {
            return Ok(generated.iter().map(|(path, text)| (path.clone(), sha256_hex(text.as_bytes()))).collect());
        }
        let digest = |path: &String| -> Result<(String, String), LookupError> {
            let mut hash = Sha256::new();
            let file = open_beneath(&self.dir, Path::new(path))?;
            for_each_chunk(file, io_failed, |chunk| {
                hash.update(chunk);
                Ok(())
            })?;
            Ok((path.clone(), hex::encode(hash.finalize())))
        };
        self.files.iter().map(digest).collect()
    }

    /// A file that may be shown and is a text of at most so many bytes.
    fn text(&self, path: &str, most: u64) -> Result<Option<String>, LookupError> {
        if let Some(generated) = &self.generated {
            return Ok(generated.get(path).filter(|text| text.len() as u64 <= most).cloned());
        }
        if check_shown_of_skill(path).is_err() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        open_beneath(&self.dir, Path::new(path))?.take(most + 1).read_to_end(&mut bytes).map_err(io_failed)?;
        let text =
            Some(bytes).filter(|bytes| bytes.len() as u64 <= most).and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text.filter(|text| !text.contains('\0')))
    }
}

fn io_failed(source: io::Error) -> LookupError {
    LookupError::Io { source }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::*;

    fn package(dir: &Path, text: &str) -> Arc<Installed> {
        fs::create_dir_all(dir).unwrap();
        let head = "---\nname: moving\ndescription: Moves.\n---\n";
        fs::write(dir.join("SKILL.md"), format!("{head}{text}\n")).unwrap();
        Arc::new(load::load_dir(dir, Intake::Installed).unwrap())
    }

    /// An installation archives the package in place after it was looked up: its files are gone, or another's.
    #[test]
    fn packages_that_are_replaced_while_they_are_compared_are_looked_up_again() {
        let folder = tempfile::tempdir().unwrap();
        let (place, archive) = (folder.path().join("moving"), folder.path().join("archive/moving"));
        let first = package(&place, "first");
        fs::create_dir(folder.path().join("archive")).unwrap();
        let looks = Cell::new(0);
        let look = || -> Result<_, String> {
            looks.set(looks.get() + 1);
            if looks.get() > 1 {
                return Ok([load::load_dir(&archive, Intake::Installed), load::load_dir(&place, Intake::Installed)]
                    .map(|found| found.ok().map(Arc::new)));
            }
            let found = [Some(first.clone()), Some(first.clone())];
            fs::rename(&place, &archive).unwrap();
            package(&place, "second");
            fs::remove_file(place.join("SKILL.md")).unwrap();
            fs::write(place.join("SKILL.md"), fs::read_to_string(archive.join("SKILL.md")).unwrap() + "second\n")
                .unwrap();
            Ok(found)
        };
        let ([before, after], changes) = compare(look, |error| error.to_string()).unwrap();
        assert_eq!((before.unwrap().dir.clone(), after.unwrap().dir.clone()), (archive, place));
        assert_eq!((looks.get(), changes.len()), (3, 1));
    }

    #[test]
    fn packages_that_are_replaced_for_ever_are_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let looks = Cell::new(0_usize);
        let look = || -> Result<_, String> {
            looks.set(looks.get() + 1);
            let found = package(&folder.path().join("moving"), &looks.get().to_string());
            Ok([None, Some(found)])
        };
        let told = compare(look, |error| std::error::Error::source(&error).map_or(String::new(), ToString::to_string));
        assert_eq!(told.unwrap_err(), "the packages kept changing while they were compared");
        assert_eq!(looks.get(), COMPARISONS + 1);
    }
}
