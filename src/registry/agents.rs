//! Agents' folders: each skill that an agent lists becomes a script skill, generated in memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::installed::{Entry, Installed, NotUsable};
use super::load::{self, listed};
use super::survey::{MAX_TOTAL_BYTES, Survey};
use crate::domain::codes::FindingCode;
use crate::files::Shortage;
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

type Outcome = Result<Vec<Arc<Installed>>, NotUsable>;

impl Agents {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, known: Mutex::default() }
    }

    /// The skill of this id.
    pub(crate) fn lookup(&self, id: &str) -> Result<Arc<Installed>, NotUsable> {
        let mut broken = Vec::new();
        for role in self.roles()?.into_iter().filter(|role| id.starts_with(&agent::id(role, ""))) {
            match self.current(&role) {
                Some(Ok(skills)) => {
                    if let Some(found) = skills.into_iter().find(|found| found.skill.id == id) {
                        return Ok(found);
                    }
                }
                Some(Err(NotUsable::Invalid { findings })) => broken.extend(findings),
                Some(Err(other)) => return Err(other),
                None => {}
            }
        }
        if broken.is_empty() { Err(NotUsable::NotFound) } else { Err(NotUsable::Invalid { findings: broken }) }
    }

    /// Every skill of every agent, and the agents that are broken.
    pub(crate) fn list(&self) -> Result<Vec<Entry>, Shortage> {
        let roles = self.roles()?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|role, _| roles.contains(role));
        let mut entries = Vec::new();
        for role in roles {
            match self.current(&role) {
                Some(Ok(skills)) => entries.extend(skills.into_iter().map(Entry::Valid)),
                Some(Err(NotUsable::Invalid { findings })) => {
                    entries.push(Entry::Invalid { folder: format!("agents/{role}"), findings });
                }
                Some(Err(NotUsable::Unread(shortage))) => return Err(shortage),
                Some(Err(NotUsable::NotFound)) | None => {}
            }
        }
        Ok(entries)
    }

    /// The agents: folders that hold a list of skills. Other folders beside them are ignored.
    fn roles(&self) -> Result<Vec<String>, Shortage> {
        let entries = listed(&self.dir)?;
        let agents = entries.into_iter().filter(|entry| entry.path().join(agent::PATH).is_file());
        let mut roles: Vec<String> = agents.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        roles.retain(|role| !role.starts_with('.'));
        roles.sort();
        Ok(roles)
    }

    fn current(&self, role: &str) -> Option<Outcome> {
        let dir = self.dir.join(role);
        let survey = Survey::of(&dir)?;
        let unchanged = |known: &&Known| known.stable && known.survey == survey;
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(role).filter(unchanged) {
            return Some(known.outcome.clone());
        }
        let began = SystemTime::now();
        let packages = packages(&dir, role, &survey);
        let outcome: Outcome =
            packages.and_then(|packages| packages.into_iter().map(|one| installed(&dir, one)).collect());
        let stable = survey.stable_at(began) && !matches!(outcome, Err(NotUsable::Unread(_)));
        let known = Known { survey, stable, outcome: outcome.clone() };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(role.into(), known);
        Some(outcome)
    }
}

/// Generates the packages of an agent's folder, whose name is the role.
pub fn load_agent(path: &Path) -> Result<Vec<AgentPackage>, Vec<Finding>> {
    let made = load::outside(path).and_then(|(dir, role, survey)| packages(&dir, &role, &survey));
    made.map_err(NotUsable::findings)
}

/// The packages of an agent's folder. Of the findings about its other files only a size beyond the limit counts.
fn packages(dir: &Path, role: &str, survey: &Survey) -> Result<Vec<AgentPackage>, NotUsable> {
    let mut findings = survey.findings.clone();
    findings.retain(|finding| finding.code == FindingCode::PackageTooLarge);
    if !findings.is_empty() {
        return Err(NotUsable::Invalid { findings });
    }
    // Its packages are made of all its texts. It is the operator's own folder.
    let files = load::contents_up_to(MAX_TOTAL_BYTES, dir, survey, &mut findings)?;
    agent::packages(role, &files).map_err(|findings| NotUsable::Invalid { findings })
}

fn installed(dir: &Path, package: AgentPackage) -> Result<Arc<Installed>, NotUsable> {
    let AgentPackage { id, files: generated } = package;
    let mut files = PackageFiles::new();
    generated.iter().for_each(|(path, text)| files.insert(path.as_str(), text.as_bytes().to_vec()));
    let skill = lint(&id, &files, Intake::Installed).map_err(|findings| NotUsable::Invalid { findings })?;
    let files = generated.keys().cloned().collect();
    Ok(Arc::new(Installed { skill: skill.into(), dir: dir.into(), files, generated: Some(generated) }))
}
