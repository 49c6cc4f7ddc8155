//! The skills folder, read again for every call.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::agents::Agents;
use super::archive::{KeptVersion, archived};
use super::installed::{Entry, Installed, NotUsable};
use super::load;
use super::plan::archive_of;
use super::survey::Survey;
use crate::domain::similar::most_like;
use crate::files::{Error, Shortage};
use crate::skill::{Finding, Intake, is_id};

/// So many files are looked at faster than another thread is woken.
const FEW_FILES: usize = 32;

/// The skills folder. Every call looks at the disk, so that a change is seen at once and without a restart; a package
/// whose files have not changed is not read again. Calls block on the disk. Clones share what they have read.
#[derive(Debug, Clone)]
pub struct Registry {
    skills_dir: PathBuf,
    agents: Option<Arc<Agents>>,
    demos: Option<Arc<Registry>>,
    known: Arc<Mutex<HashMap<String, Known>>>,
    /// Skills whose package cannot be had, though it should be in place.
    missing: Arc<Mutex<BTreeMap<String, Finding>>>,
}

/// A package as it was read, and the metadata of its files at that time.
#[derive(Debug, Clone)]
struct Known {
    survey: Arc<Survey>,
    /// Whether every later change of the files will show in their [`Survey`].
    stable: bool,
    /// Whether every later change of the folders will show in their marks.
    folders_stable: bool,
    outcome: Outcome,
}

type Outcome = Result<Arc<Installed>, NotUsable>;

impl Registry {
    /// The registry of a folder, which need not exist yet.
    pub fn new(skills_dir: impl Into<PathBuf>) -> Self {
        let skills_dir = skills_dir.into();
        Self { skills_dir, agents: None, demos: None, known: Arc::default(), missing: Arc::default() }
    }

    /// The same with the skills of the agents in this folder, which need not exist. An installed skill comes before an
    /// agent's of the same id.
    #[must_use]
    pub fn with_agents(self, agents_dir: impl Into<PathBuf>) -> Self {
        Self { agents: Some(Arc::new(Agents::new(agents_dir.into()))), ..self }
    }

    /// The same with the skills of another folder, while there are none in its own.
    #[must_use]
    pub(crate) fn with_demos(self, demos_dir: PathBuf) -> Self {
        Self { demos: Some(Arc::new(Self::new(demos_dir))), ..self }
    }

    /// The skills that are there while there are no others.
    pub(crate) fn demos(&self) -> Result<Vec<Entry>, Shortage> {
        match &self.demos {
            Some(demos) if self.is_empty()? => demos.list(),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// Whether the folder has no package, and no agent has a skill.
    pub(crate) fn is_empty(&self) -> Result<bool, Shortage> {
        Ok(self.folders()?.is_empty() && self.of_agents()?.is_empty())
    }

    fn of_agents(&self) -> Result<Vec<Entry>, Shortage> {
        self.agents.as_ref().map_or_else(|| Ok(Vec::new()), |agents| agents.list())
    }

    /// The skill of this id.
    pub fn lookup(&self, id: &str) -> Result<Arc<Installed>, NotUsable> {
        // The id becomes a path, so anything but a valid id is refused.
        if !is_id(id) {
            return Err(NotUsable::NotFound);
        }
        if let Some(finding) = self.missing().get(id) {
            return Err(NotUsable::Invalid { findings: vec![finding.clone()] });
        }
        let found = match (self.current(id), &self.agents) {
            (Some(known), _) => known,
            (None, Some(agents)) => agents.lookup(id),
            (None, None) => Err(NotUsable::NotFound),
        };
        match (&self.demos, found) {
            (Some(demos), Err(NotUsable::NotFound)) if self.is_empty()? => demos.lookup(id),
            (_, found) => found,
        }
    }

    /// Whether a look at this skill takes no time worth speaking of: it was read before, and has few files.
    pub(crate) fn is_small(&self, id: &str) -> bool {
        self.known().get(id).is_some_and(|known| known.survey.files.len() <= FEW_FILES)
    }

    /// Every package in the folder, by name, and the agents' skills after them; folders with a dot in front are not
    /// packages. It fails when the machine has nothing left to read them with.
    pub fn list(&self) -> Result<Vec<Entry>, Shortage> {
        let missing = self.missing().clone();
        let mut folders = self.folders()?;
        self.known().retain(|folder, _| folders.contains(folder));
        folders.extend(missing.keys().cloned());
        let mut entries = Vec::with_capacity(folders.len());
        for folder in folders.iter().cloned() {
            if let Some(finding) = missing.get(&folder) {
                entries.push(Entry::Invalid { folder, findings: vec![finding.clone()] });
                continue;
            }
            entries.push(match self.current(&folder) {
                Some(Ok(found)) => Entry::Valid(found),
                Some(Err(NotUsable::Invalid { findings })) => Entry::Invalid { folder, findings },
                Some(Err(NotUsable::Unread(shortage))) => return Err(shortage),
                Some(Err(NotUsable::NotFound)) | None => continue,
            });
        }
        let hidden = |entry: &Entry| matches!(entry, Entry::Valid(found) if folders.contains(&found.skill.id));
        entries.extend(self.of_agents()?.into_iter().filter(|entry| !hidden(entry)));
        if entries.is_empty() {
            return self.demos();
        }
        Ok(entries)
    }

    pub(super) fn folder(&self) -> &std::path::Path {
        &self.skills_dir
    }

    /// Every version of a skill that is here: the one in place first, then the archived ones, the latest first.
    pub(crate) fn versions(&self, id: &str) -> Result<Vec<KeptVersion>, Error> {
        if !is_id(id) {
            return Ok(Vec::new());
        }
        let now = match self.lookup(id) {
            Ok(found) => Some(KeptVersion::of(&found.dir, true, &Ok(found.skill.clone()))),
            Err(NotUsable::Invalid { findings }) => {
                Some(KeptVersion::of(&self.skills_dir.join(id), true, &Err(findings)))
            }
            Err(NotUsable::NotFound) => None,
            Err(NotUsable::Unread(shortage)) => return Err(Error::on("read", &self.skills_dir.join(id))(shortage)),
        };
        let archived = archived(&self.skills_dir, id)?.into_iter().map(|archived| archived.kept);
        Ok(now.into_iter().chain(archived).collect())
    }

    /// Whether a skill of this id is in place, whole or broken, or in the archive.
    pub(crate) fn knows(&self, id: &str) -> bool {
        let in_archive = || is_id(id) && self.skills_dir.join(archive_of(id)).is_dir();
        !matches!(self.lookup(id), Err(NotUsable::NotFound)) || in_archive()
    }

    /// The id of the skill that was probably meant by one that no skill has.
    pub(crate) fn similar(&self, id: &str) -> Option<String> {
        let of_agents = self.of_agents().unwrap_or_default().into_iter().filter_map(|entry| match entry {
            Entry::Valid(found) => Some(found.skill.id.clone()),
            Entry::Invalid { .. } => None,
        });
        let demos = self.demos().unwrap_or_default().into_iter().filter_map(|entry| match entry {
            Entry::Valid(found) => Some(found.skill.id.clone()),
            Entry::Invalid { .. } => None,
        });
        most_like(id, self.folders().unwrap_or_default().into_iter().chain(of_agents).chain(demos))
    }

    /// The folders that may be skills.
    pub(crate) fn folders(&self) -> Result<BTreeSet<String>, Shortage> {
        let entries = load::listed(&self.skills_dir)?;
        let names = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
        Ok(names.filter(|name| !name.starts_with('.')).collect())
    }

    /// The package as it is now; none when there is no such folder.
    pub(super) fn current(&self, folder: &str) -> Option<Outcome> {
        let dir = self.skills_dir.join(folder);
        let last = self.known().get(folder).filter(|known| known.stable && known.folders_stable).cloned();
        if let Some(known) = last.filter(|known| known.survey.still_fits(&dir)) {
            return Some(known.outcome);
        }
        let began = SystemTime::now();
        let Some(survey) = Survey::of(&dir) else {
            self.known().remove(folder);
            return None;
        };
        let unchanged = |known: &&mut Known| known.stable && *known.survey == survey;
        if let Some(known) = self.known().get_mut(folder).filter(unchanged) {
            (known.folders_stable, known.survey) = (survey.folders_stable_at(began), Arc::new(survey));
            return Some(known.outcome.clone());
        }
        // Read without the lock: a large package must not delay the others, and reading one twice is harmless.
        let loaded = load::load(&dir, folder, survey, Intake::Installed)?;
        let known = Known {
            folders_stable: loaded.survey.folders_stable_at(began),
            survey: Arc::new(loaded.survey),
            stable: loaded.stable,
            outcome: loaded.outcome.map(Arc::new),
        };
        let outcome = known.outcome.clone();
        self.known().insert(folder.into(), known);
        Some(outcome)
    }

    /// From now on these skills cannot be used, whatever is in their place.
    pub(crate) fn set_missing(&self, missing: BTreeMap<String, Finding>) {
        *self.missing() = missing;
    }

    fn missing(&self) -> MutexGuard<'_, BTreeMap<String, Finding>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        // Every change of the map is a single call, so a poisoned lock is usable.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
