//! Agent Skills in the open format, as whole packages: their files, and what this runner adds to them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::installed::NotUsable;
use super::load;
use super::survey::{NOT_PACKAGED, Survey};
use crate::domain::codes::FindingCode;
use crate::skill::front_matter::{self, PATH as SKILL_MD};
use crate::skill::lint::{generated, is_open, rewritten};
use crate::skill::{Finding, Intake, PackageFiles, agent, is_id, lint};

/// How deep a folder is looked through for skills.
const MAX_DEPTH: usize = 4;
/// Longest id.
const ID_MAX: usize = 64;

/// A skill that can be written as a whole package.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Importable {
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    /// Its files, relative to the folder, that are copied as they are.
    pub(crate) copied: Vec<String>,
    /// Files that are written: path and text.
    pub(crate) written: BTreeMap<String, String>,
}

/// Every skill in a folder: the folder itself, or those below it.
pub(crate) fn importable(path: &Path) -> Result<Vec<Importable>, Vec<Finding>> {
    let mut found = Vec::new();
    look_for_skills(path, 0, &mut found);
    found.sort();
    if found.is_empty() {
        let message = format!("{} holds no {SKILL_MD}", path.display());
        let hint = "name the folder of a skill, a folder of such folders, or an agent's folder with agent.yaml";
        return Err(vec![Finding::error(FindingCode::FileMissing, "", message, hint)]);
    }
    let (mut skills, mut findings) = (Vec::<Importable>::new(), Vec::new());
    for dir in found {
        match whole(&dir) {
            Ok(skill) => match skills.iter().find(|other| other.id == skill.id) {
                Some(other) => findings.push(clash(&skill, other)),
                None => skills.push(skill),
            },
            Err(more) => findings.extend(more.into_iter().map(|finding| in_folder(finding, path, &dir))),
        }
    }
    if findings.is_empty() { Ok(skills) } else { Err(findings) }
}

fn look_for_skills(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if dir.join(SKILL_MD).is_file() {
        found.push(dir.to_owned());
        return;
    }
    if depth == MAX_DEPTH {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let skipped = NOT_PACKAGED.iter().any(|other| *other == name);
        // Links are not followed: they may lead anywhere.
        if !skipped && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            look_for_skills(&entry.path(), depth + 1, found);
        }
    }
}

fn whole(path: &Path) -> Result<Importable, Vec<Finding>> {
    let (dir, folder, survey) = load::outside(path).map_err(NotUsable::findings)?;
    let mut findings = survey.findings.clone();
    let files = load::contents(&dir, &survey, &mut findings).map_err(|why| NotUsable::from(why).findings())?;
    if !findings.is_empty() {
        return Err(findings);
    }
    let mut written = BTreeMap::new();
    let id = if is_open(&files) { id_of(&folder, &files) } else { folder };
    let mut package = files.clone();
    if is_open(&files) {
        written.extend(generated(&id, &files).into_iter().map(|(path, text)| (path.to_owned(), text)));
        let rewritten = files.text(SKILL_MD).ok().and_then(|text| rewritten(&id, text));
        written.extend(rewritten.map(|text| (SKILL_MD.to_owned(), text)));
        written.iter().for_each(|(path, text)| package.insert(path.as_str(), text.clone().into_bytes()));
    }
    lint(&id, &package, Intake::New)?;
    let copied = files.paths().filter(|path| !written.contains_key(*path)).map(str::to_owned).collect();
    Ok(Importable { id, dir, copied, written })
}

/// The folder's name, else what the skill calls itself, else the folder's name with what an id may not have left out.
fn id_of(folder: &str, files: &PackageFiles) -> String {
    if is_id(folder) {
        return folder.to_owned();
    }
    let text = files.text(SKILL_MD).unwrap_or_default();
    let head = front_matter::split_leniently(text).ok().map(|(head, ..)| head);
    let named = head.and_then(|head| Some(head.get("name")?.as_str()?.to_owned()));
    let spoken = named.as_deref().unwrap_or(folder);
    if is_id(spoken) {
        return spoken.to_owned();
    }
    let plain: String = spoken
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .take(ID_MAX)
        .collect();
    plain.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

fn clash(skill: &Importable, other: &Importable) -> Finding {
    let message = format!("{} and {} are both named {:?}", other.dir.display(), skill.dir.display(), skill.id);
    Finding::error(FindingCode::NameClash, "", message, "rename one of the folders, or import them one by one")
}

/// The finding with the folder it is about.
fn in_folder(mut finding: Finding, root: &Path, dir: &Path) -> Finding {
    let below = dir.strip_prefix(root).ok().filter(|below| !below.as_os_str().is_empty());
    if let Some(below) = below {
        finding.file = below.join(&finding.file).to_string_lossy().into_owned();
    }
    finding
}

/// Whether a folder is looked at as an agent's.
pub(crate) fn is_agent(path: &Path) -> bool {
    Survey::of(path).is_some() && path.join(agent::PATH).is_file()
}
