//! The files of a package, in place or in the archive: one of them shown, all of them compared with another package's.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::archive::archived;
use super::change::is_named;
use super::installed::Installed;
use super::load;
use super::scan::Registry;
use super::survey::Survey;
use crate::files::{Error, LookupError, Preview, for_each_chunk, open_beneath};
use crate::projection::check_shown_of_skill;
use crate::skill::changes::{Change, Content, changes};
use crate::skill::{Intake, is_id};

/// Largest text that is compared line by line.
const TEXT_MAX: u64 = 256 * 1024;

impl Registry {
    /// The package of this version, named as for a rollback; the one in place if none is named.
    pub(crate) fn package(&self, id: &str, version: Option<&str>) -> Result<Option<Arc<Installed>>, Error> {
        let now = self.lookup(id).ok();
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
        let before = before.map(Self::contents).transpose()?.unwrap_or_default();
        Ok(changes(&before, &self.contents()?))
    }

    fn contents(&self) -> Result<BTreeMap<String, Content>, LookupError> {
        if let Some(generated) = &self.generated {
            let texts = generated.iter().map(|(path, text)| (path.clone(), Content::Text(text.clone())));
            return Ok(texts.collect());
        }
        let content = |path: &String| -> Result<(String, Content), LookupError> {
            let failed = |source| LookupError::Io { source };
            let mut file = open_beneath(&self.dir, Path::new(path))?;
            let shown = check_shown_of_skill(path).is_ok();
            if shown && file.metadata().map_err(failed)?.len() <= TEXT_MAX {
                let mut bytes = Vec::new();
                (&mut file).take(TEXT_MAX).read_to_end(&mut bytes).map_err(failed)?;
                let sha256 = hex::encode(Sha256::digest(&bytes));
                let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
                return Ok((path.clone(), text.map_or(Content::Other { sha256 }, Content::Text)));
            }
            let mut hash = Sha256::new();
            for_each_chunk(&mut file, failed, |chunk| {
                hash.update(chunk);
                Ok(())
            })?;
            Ok((path.clone(), Content::Other { sha256: hex::encode(hash.finalize()) }))
        };
        self.files.iter().map(content).collect()
    }
}
