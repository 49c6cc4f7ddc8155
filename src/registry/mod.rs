//! The skills folder: scanning it, seeing its changes, and installing into it.

mod agents;
mod copying;
mod folder;
mod install;
mod staging;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::warn;

use crate::skill::agent::AgentPackage;
use crate::skill::{Finding, Intake, Skill, is_id};
use agents::Agents;
pub use agents::Made;
pub use folder::NOT_PACKAGED;
use folder::Survey;
pub use install::{Action, Done, InstallRefused, Settled, settle};
pub use staging::{InstallError, Staging};

/// A skill as it lies on disk.
#[derive(Debug, Clone)]
pub struct Installed {
    /// What the package says.
    pub skill: Skill,
    /// Its folder.
    pub dir: PathBuf,
    /// Every file of it, relative to the folder, sorted.
    pub files: Vec<String>,
    /// What the files hold, where the package was made from an agent's folder and is nowhere on disk as such.
    pub made: Option<Made>,
}

/// Why there is no skill to give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUsable {
    /// Nothing is installed under that name.
    #[error("no such skill is installed")]
    NotFound,
    /// The package is there and broken.
    #[error("the installed package is broken: {}", summary(findings))]
    Invalid {
        /// All that is wrong with it.
        findings: Vec<Finding>,
    },
}

fn summary(findings: &[Finding]) -> String {
    findings.first().map(|finding| finding.message.clone()).unwrap_or_default()
}

/// One folder of the skills folder.
#[derive(Debug, Clone)]
pub enum Entry {
    /// It can run.
    Valid(Arc<Installed>),
    /// It cannot.
    Invalid {
        /// The folder's name.
        folder: String,
        /// All that is wrong with it.
        findings: Vec<Finding>,
    },
}

/// The skills folder. Every question looks at the disk, so a change is seen at once and without a restart;
/// a package whose files have not changed is not read again. Calls block on the disk. Clones share what they know.
#[derive(Debug, Clone)]
pub struct Registry {
    skills_dir: PathBuf,
    agents: Option<Arc<Agents>>,
    known: Arc<Mutex<HashMap<String, Known>>>,
}

/// A package as it was read, and the look of its files at that time.
#[derive(Debug, Clone)]
struct Known {
    survey: Survey,
    /// The files were older than the clock's tick when they were read: no later change can look the same.
    settled: bool,
    outcome: Result<Arc<Installed>, Vec<Finding>>,
}

impl Registry {
    /// The registry of a folder, which need not exist yet.
    pub fn new(skills_dir: impl Into<PathBuf>) -> Self {
        Self { skills_dir: skills_dir.into(), agents: None, known: Arc::default() }
    }

    /// The same with the skills of the agents in this folder, which need not exist. An installed skill comes before an
    /// agent's of the same id.
    #[must_use]
    pub fn with_agents(self, agents_dir: impl Into<PathBuf>) -> Self {
        Self { agents: Some(Arc::new(Agents::new(agents_dir.into()))), ..self }
    }

    /// The skill of this id.
    pub fn lookup(&self, id: &str) -> Result<Arc<Installed>, NotUsable> {
        // The id becomes a path: nothing but an id may.
        if !is_id(id) {
            return Err(NotUsable::NotFound);
        }
        match (self.current(id), &self.agents) {
            (Some(known), _) => known.map_err(|findings| NotUsable::Invalid { findings }),
            (None, Some(agents)) => agents.lookup(id),
            (None, None) => Err(NotUsable::NotFound),
        }
    }

    /// Every package in the folder, by name, and the agents' skills after them; folders with a dot in front are not
    /// packages.
    pub fn list(&self) -> Vec<Entry> {
        let folders = self.folders();
        self.known().retain(|folder, _| folders.contains(folder));
        let entry = |folder: String| {
            let outcome = self.current(&folder)?;
            Some(outcome.map_or_else(|findings| Entry::Invalid { folder, findings }, Entry::Valid))
        };
        let mut entries: Vec<Entry> = folders.iter().cloned().filter_map(entry).collect();
        let hidden = |entry: &Entry| matches!(entry, Entry::Valid(found) if folders.contains(&found.skill.id));
        let of_agents = self.agents.iter().flat_map(|agents| agents.list()).filter(|entry| !hidden(entry));
        entries.extend(of_agents);
        entries
    }

    fn folders(&self) -> BTreeSet<String> {
        let entries = match fs::read_dir(&self.skills_dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return BTreeSet::new(),
            Err(error) => {
                warn!(skills_dir = %self.skills_dir.display(), %error, "the skills folder cannot be read");
                return BTreeSet::new();
            }
        };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    /// The package as it is now; none when there is no such folder.
    fn current(&self, folder: &str) -> Option<Result<Arc<Installed>, Vec<Finding>>> {
        let dir = self.skills_dir.join(folder);
        let Some(survey) = Survey::of(&dir) else {
            self.known().remove(folder);
            return None;
        };
        let unchanged = |known: &&Known| known.settled && known.survey == survey;
        if let Some(known) = self.known().get(folder).filter(unchanged) {
            return Some(known.outcome.clone());
        }
        // Read without the lock: a large package must not hold up the others, and reading one twice is harmless.
        let loaded = folder::load(&dir, folder, survey, Intake::Installed)?;
        let known = Known { survey: loaded.survey, settled: loaded.settled, outcome: loaded.outcome.map(Arc::new) };
        let outcome = known.outcome.clone();
        self.known().insert(folder.into(), known);
        Some(outcome)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        // Every change of the map is a single call, so a panic elsewhere cannot leave it half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads one package that lies anywhere.
pub fn load_dir(path: &Path, intake: Intake) -> Result<Installed, Vec<Finding>> {
    let (dir, folder, survey) = outside(path)?;
    folder::load(&dir, &folder, survey, intake).ok_or_else(|| vec![not_a_folder(path)])?.outcome
}

/// Reads an agent's folder, whose name is the role, into the packages it stands for.
pub fn load_agent(path: &Path) -> Result<Vec<AgentPackage>, Vec<Finding>> {
    let (dir, role, survey) = outside(path)?;
    agents::packages(&dir, &role, &survey)
}

fn outside(path: &Path) -> Result<(PathBuf, String, Survey), Vec<Finding>> {
    // The real path: `.` has a name too.
    let dir = path.canonicalize().map_err(|_| vec![not_a_folder(path)])?;
    let folder = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let survey = Survey::of(&dir).ok_or_else(|| vec![not_a_folder(path)])?;
    Ok((dir, folder, survey))
}

fn not_a_folder(path: &Path) -> Finding {
    let message = format!("{} is not a folder that can be read", path.display());
    Finding::error("UNREADABLE", "", message, "give the path of an existing folder")
}
