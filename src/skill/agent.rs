//! Agent folders: `agent.yaml` and its scripts, turned into full packages of script skills.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::finding::Finding;
use super::lint::is_id;
use super::manifest;
use super::package::{PackageFiles, stays_inside};
use crate::bounded;
use crate::domain::codes::FindingCode;

/// Where an agent folder lists its skills.
pub const PATH: &str = "agent.yaml";

/// Where its scripts are.
const SCRIPTS: &str = ".claude/skills/";

/// A package made from one skill of an agent folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPackage {
    /// `<role>-<name>`: the skill's id and its folder's name.
    pub id: String,
    /// Every file of the package.
    pub files: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct AgentFile {
    #[serde(default)]
    skills: Vec<AgentSkill>,
}

#[derive(Deserialize)]
struct AgentSkill {
    name: String,
    #[serde(default)]
    entry: Option<String>,
    #[serde(default)]
    timeout: Option<u64>,
    #[serde(default)]
    description: Option<String>,
}

/// The id of an agent's skill. Names of Python modules have _ where ids have -.
pub fn id(role: &str, name: &str) -> String {
    format!("{role}-{name}").to_lowercase().replace('_', "-")
}

/// The packages of an agent folder called `role`, or everything that keeps them from being made.
pub(crate) fn packages(role: &str, files: &PackageFiles) -> Result<Vec<AgentPackage>, Vec<Finding>> {
    let listed = listed(files).map_err(|finding| vec![finding])?;
    let mut made: Vec<AgentPackage> = Vec::new();
    let mut findings = Vec::new();
    for (index, skill) in listed.iter().enumerate() {
        match package(role, skill, files) {
            Ok(package) if made.iter().any(|other| other.id == package.id) => {
                let message = format!("two skills would be called {:?}", package.id);
                findings.push(
                    Finding::error(FindingCode::NameClash, PATH, message, "rename one")
                        .at(format!("/skills/{index}/name")),
                );
            }
            Ok(package) => made.push(package),
            Err(finding) => findings.push(finding.at(format!("/skills/{index}"))),
        }
    }
    if findings.is_empty() { Ok(made) } else { Err(findings) }
}

fn listed(files: &PackageFiles) -> Result<Vec<AgentSkill>, Finding> {
    let invalid = |message: String| {
        Finding::error(FindingCode::AgentInvalid, PATH, message, "list skills as - name: …, entry: …, timeout: …")
    };
    let text = files.text(PATH).map_err(|_| invalid("the folder has no readable agent.yaml".into()))?;
    let agent: AgentFile = bounded::yaml::read(text).map_err(|error| invalid(error.to_string()))?;
    if agent.skills.is_empty() { Err(invalid("it lists no skills".into())) } else { Ok(agent.skills) }
}

/// The entry as a path of the agent folder; a bare name is a script in the usual place.
fn script_path(skill: &AgentSkill) -> String {
    let entry = skill.entry.clone().unwrap_or_else(|| format!("{}.py", skill.name));
    let entry = entry.strip_prefix("./").unwrap_or(&entry);
    if entry.contains('/') { entry.into() } else { format!("{SCRIPTS}{entry}") }
}

fn package(role: &str, skill: &AgentSkill, files: &PackageFiles) -> Result<AgentPackage, Finding> {
    let id = id(role, &skill.name);
    if !is_id(&id) {
        let hint = "name role and skill with a-z, 0-9 and single -, at most 64 characters together";
        return Err(Finding::error(FindingCode::NameInvalid, PATH, format!("{id:?} cannot be a skill's id"), hint));
    }
    let script = script_path(skill);
    if !stays_inside(&script) || files.text(&script).is_err() {
        let message = format!("the script {script:?} is not a text file of the folder");
        return Err(Finding::error(FindingCode::FileMissing, PATH, message, "correct the entry, or add the script"));
    }
    // The script finds everything where it is in the agent's folder: modules beside it, and files three folders above.
    let texts = files.paths().filter_map(|path| Some((path.to_owned(), files.text(path).ok()?.to_owned())));
    let mut made: BTreeMap<String, String> = texts.collect();
    made.extend(contract(&id, role, skill, &script));
    Ok(AgentPackage { id, files: made })
}

fn contract(id: &str, role: &str, skill: &AgentSkill, script: &str) -> BTreeMap<String, String> {
    let open = pretty(&json!({ "type": "object", "additionalProperties": true }));
    let quoted = script.replace('\'', "'\\''");
    let mut runner = json!({
        "id": id, "version": "1.0.0", "name": skill.name, "execution_modes": ["auto"],
        "entrypoint": { "type": "script", "script": { "command": format!("python3 '{quoted}'") } },
        "schemas": {
            "input": "assets/input.schema.json",
            "parameter": "assets/parameter.schema.json",
            "output": "assets/output.schema.json"
        }
    });
    if let (Some(seconds), Some(fields)) = (skill.timeout, runner.as_object_mut()) {
        fields.insert("automation".into(), json!({ "timeout_sec": seconds.max(1) }));
    }
    let usual = format!("The skill {} of the agent {role}.", skill.name);
    let description: String = skill.description.as_deref().unwrap_or(&usual).chars().take(1024).collect();
    // A JSON string is also valid YAML, so nothing else has to be escaped.
    let head = format!("---\nname: {id}\ndescription: {}\n---\n", Value::from(description.as_str()));
    BTreeMap::from([
        ("SKILL.md".into(), format!("{head}\n# {}\n\n{description}\n", skill.name)),
        (manifest::PATH.into(), pretty(&runner)),
        ("assets/input.schema.json".into(), open.clone()),
        ("assets/parameter.schema.json".into(), open.clone()),
        ("assets/output.schema.json".into(), open),
    ])
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::super::{Intake, Skill, lint};
    use super::*;

    fn files(entries: &[(&str, &str)]) -> PackageFiles {
        let mut files = PackageFiles::new();
        entries.iter().for_each(|(path, text)| files.insert(*path, text.as_bytes().to_vec()));
        files
    }

    fn linted(package: &AgentPackage) -> Skill {
        let entries: Vec<(&str, &str)> =
            package.files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        lint(&package.id, &files(&entries), Intake::New).unwrap()
    }

    #[test]
    fn each_listed_skill_becomes_a_package_that_lints_clean() {
        let yaml = "name: Accountant\nskills:\n- name: calc_tax\n  entry: .claude/skills/calc_tax.py\n  timeout: 30\n\
                    - name: report\n  description: 'Writes: a report'\n";
        let folder = files(&[
            (PATH, yaml),
            (".claude/skills/calc_tax.py", "tax"),
            (".claude/skills/report.py", "report"),
            (".claude/skills/shared.py", "shared"),
            ("notes.py", "notes"),
        ]);
        let made = packages("accountant", &folder).unwrap();
        let ids: Vec<&str> = made.iter().map(|package| package.id.as_str()).collect();
        assert_eq!(ids, ["accountant-calc-tax", "accountant-report"]);
        let own = |path: &&String| !path.starts_with("assets/");
        let paths: Vec<&String> = made[0].files.keys().filter(own).collect();
        let layout = [".claude/skills/calc_tax.py", ".claude/skills/report.py", ".claude/skills/shared.py"];
        assert_eq!(paths[..3], layout);
        assert_eq!(paths[3..], ["SKILL.md", PATH, "notes.py"], "the folder keeps its layout");
        let (tax, report) = (linted(&made[0]), linted(&made[1]));
        assert_eq!((tax.findings.len(), report.findings.len()), (0, 0));
        assert_eq!((tax.timeout_seconds(), report.timeout_seconds()), (Some(30), Some(300)));
        assert_eq!(report.description, "Writes: a report");
        let anything = json!({ "anything": 1 });
        assert_eq!(super::super::inputs::check_request(&tax, Some(&anything), Some(&anything)), Ok(()));
    }

    #[test]
    fn everything_that_keeps_a_package_from_being_made_is_told() {
        let codes = |yaml: &str| -> Vec<(&'static str, String)> {
            let folder = files(&[(PATH, yaml), (".claude/skills/a.py", "x")]);
            packages("role", &folder).unwrap_err().into_iter().map(|f| (f.code.as_str(), f.pointer)).collect()
        };
        assert_eq!(codes("skills: ["), [("AGENT_INVALID", String::new())]);
        assert_eq!(codes("name: x"), [("AGENT_INVALID", String::new())]);
        assert_eq!(
            codes(
                "skills: [{name: gone}, {name: 'no spaces'}, {name: a}, {name: A, entry: a.py}, {name: b, entry: ../x.py}]"
            ),
            [
                ("FILE_MISSING", "/skills/0".into()),
                ("NAME_INVALID", "/skills/1".into()),
                ("NAME_CLASH", "/skills/3/name".into()),
                ("FILE_MISSING", "/skills/4".into()),
            ]
        );
        assert_eq!(packages("role", &PackageFiles::new()).unwrap_err()[0].code, "AGENT_INVALID");
    }
}
