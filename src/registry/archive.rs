//! The versions of a skill: the one in place and those in the archive, known by what is in them and not by their names.

use std::cmp::Reverse;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::load;
use super::plan::archive_of;
use super::survey::Survey;
use crate::domain::time::Timestamp;
use crate::files::Error;
use crate::skill::{Finding, Intake, Skill};

/// A version of a skill that is in place or in the archive.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct KeptVersion {
    /// None if the package is broken.
    pub(crate) version: Option<String>,
    pub(crate) fingerprint: Option<String>,
    /// Whether runs use it.
    pub(crate) current: bool,
    /// When it came where it is: into its place, or into the archive.
    pub(crate) since: Timestamp,
    /// What is wrong with it.
    pub(crate) findings: Vec<Finding>,
}

impl KeptVersion {
    pub(crate) fn of(dir: &Path, current: bool, read: &Result<Arc<Skill>, Vec<Finding>>) -> Self {
        let (skill, findings) = match read {
            Ok(skill) => (Some(skill), skill.findings.clone()),
            Err(findings) => (None, findings.clone()),
        };
        Self {
            version: skill.map(|skill| skill.version.to_string()),
            fingerprint: skill.map(|skill| skill.fingerprint.clone()),
            current,
            since: moved_at(dir),
            findings,
        }
    }
}

/// When a folder came where it is: a rename is its last change, since nothing is written in it afterwards.
fn moved_at(dir: &Path) -> Timestamp {
    let micros = fs::symlink_metadata(dir).map(|found| found.ctime() * 1_000_000 + found.ctime_nsec() / 1000);
    Timestamp::from_micros(micros.unwrap_or_default())
}

/// A package in the archive.
#[derive(Debug)]
pub(crate) struct Archived {
    pub(crate) kept: KeptVersion,
    /// Relative to the skills folder.
    pub(crate) path: PathBuf,
    pub(crate) skill: Option<Arc<Skill>>,
}

/// The archived versions of a skill, the latest first.
pub(crate) fn archived(skills_dir: &Path, id: &str) -> Result<Vec<Archived>, Error> {
    let folder = archive_of(id);
    let place = skills_dir.join(&folder);
    let entries = match fs::read_dir(&place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::on("list", &place)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let dir = entry.map_err(Error::on("list", &place))?.path();
        // Nothing but folders is ever archived; a link would lead elsewhere.
        if !fs::symlink_metadata(&dir).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        let Some(survey) = Survey::of(&dir) else { continue };
        let Some(loaded) = load::load(&dir, id, survey, Intake::Installed) else { continue };
        let read = match loaded.outcome {
            Ok(installed) => Ok(installed.skill),
            Err(why) => match why.shortage(&dir) {
                Some(error) => return Err(error),
                None => Err(why.findings()),
            },
        };
        let path = folder.join(dir.file_name().unwrap_or_default());
        found.push(Archived { kept: KeptVersion::of(&dir, false, &read), path, skill: read.ok() });
    }
    found.sort_by_key(|archived| (Reverse(archived.kept.since), archived.path.clone()));
    Ok(found)
}
