//! Agents' folders: each skill that an agent lists becomes a script skill, generated in memory.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::installed::{Entry, Installed, NotUsable};
use super::load;
use super::survey::{MAX_TOTAL_BYTES, Survey};
use crate::domain::codes::FindingCode;
use crate::skill::agent::{self, AgentPackage};
use crate::skill::{Finding, Intake, PackageFiles, lint};

/// The folder of all agents. Calls block on the disk.
#[derive(Debug)]
pub(crate) struct Agents {
    dir: PathBuf,
    known: Mutex<HashMap<String, Known>>,
}

/// An agent as it was read, and the metadata of its files at that time.
#[derive(Debug, Clone)]
struct Known {
    survey: Survey,
    stable: bool,
    outcome: Outcome,
}

type Outcome = Result<Vec<Arc<Installed>>, Vec<Finding>>;

impl Agents {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, known: Mutex::default() }
    }

    /// The skill of this id.
    pub(crate) fn lookup(&self, id: &str) -> Result<Arc<Installed>, NotUsable> {
        let mut broken = Vec::new();
        for role in self.roles().into_iter().filter(|role| id.starts_with(&agent::id(role, ""))) {
            match self.current(&role) {
                Some(Ok(skills)) => {
                    if let Some(found) = skills.into_iter().find(|found| found.skill.id == id) {
                        return Ok(found);
                    }
                }
                Some(Err(findings)) => broken.extend(findings),
                None => {}
            }
        }
        if broken.is_empty() { Err(NotUsable::NotFound) } else { Err(NotUsable::Invalid { findings: broken }) }
    }

    /// Every skill of every agent, and the agents that are broken.
    pub(crate) fn list(&self) -> Vec<Entry> {
        let roles = self.roles();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|role, _| roles.contains(role));
        let mut entries = Vec::new();
        for role in roles {
            match self.current(&role) {
                Some(Ok(skills)) => entries.extend(skills.into_iter().map(Entry::Valid)),
                Some(Err(findings)) => entries.push(Entry::Invalid { folder: format!("agents/{role}"), findings }),
                None => {}
            }
        }
        entries
    }

    /// The agents: folders that hold a list of skills. Other folders beside them are ignored.
    fn roles(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let agents = entries.filter(|entry| entry.path().join(agent::PATH).is_file());
        let mut roles: Vec<String> = agents.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        roles.retain(|role| !role.starts_with('.'));
        roles.sort();
        roles
    }

    fn current(&self, role: &str) -> Option<Outcome> {
        let dir = self.dir.join(role);
        let survey = Survey::of(&dir)?;
        let unchanged = |known: &&Known| known.stable && known.survey == survey;
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(role).filter(unchanged) {
            return Some(known.outcome.clone());
        }
        let stable = survey.stable_at(SystemTime::now());
        let packages = packages(&dir, role, &survey);
        let outcome = packages.and_then(|packages| packages.into_iter().map(|one| installed(&dir, one)).collect());
        let known = Known { survey, stable, outcome: outcome.clone() };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(role.into(), known);
        Some(outcome)
    }
}

/// Generates the packages of an agent's folder, whose name is the role.
pub fn load_agent(path: &Path) -> Result<Vec<AgentPackage>, Vec<Finding>> {
    let (dir, role, survey) = load::outside(path)?;
    packages(&dir, &role, &survey)
}

/// The packages of an agent's folder. Of the findings about its other files only a size beyond the limit counts.
fn packages(dir: &Path, role: &str, survey: &Survey) -> Result<Vec<AgentPackage>, Vec<Finding>> {
    let mut findings = survey.findings.clone();
    findings.retain(|finding| finding.code == FindingCode::PackageTooLarge);
    if !findings.is_empty() {
        return Err(findings);
    }
    // Its packages are made of all its texts. It is the operator's own folder.
    let files = load::contents_up_to(MAX_TOTAL_BYTES, dir, survey, &mut findings);
    let files = files.map_err(|_changed| vec![load::changing()])?;
    agent::packages(role, &files)
}

fn installed(dir: &Path, package: AgentPackage) -> Result<Arc<Installed>, Vec<Finding>> {
    let AgentPackage { id, files: generated } = package;
    let mut files = PackageFiles::new();
    generated.iter().for_each(|(path, text)| files.insert(path.as_str(), text.as_bytes().to_vec()));
    let skill = lint(&id, &files, Intake::Installed)?;
    let files = generated.keys().cloned().collect();
    Ok(Arc::new(Installed { skill: skill.into(), dir: dir.into(), files, generated: Some(generated) }))
}
