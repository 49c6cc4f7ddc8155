//! Agent Skills in the open format: a folder with `SKILL.md` and without `assets/runner.json` is a prompt skill.

use serde_json::{Value, json};

use super::super::finding::{Finding, Report, escape};
use super::super::package::PackageFiles;
use super::super::{front_matter, manifest};
use crate::domain::codes::FindingCode;
use crate::domain::plain_json::Plain;

const INPUT: &str = "assets/input.schema.json";
const OUTPUT: &str = "assets/output.schema.json";

/// Whether a package has instructions and no manifest.
pub(crate) fn is_open(files: &PackageFiles) -> bool {
    files.contains(front_matter::PATH) && !files.contains(manifest::PATH)
}

/// What such a skill is taken to say, as files: path and text. The skill is the folder's; `files` are those that are there.
pub(crate) fn generated(folder: &str, files: &PackageFiles) -> Vec<(&'static str, String)> {
    let head = files.text(front_matter::PATH).ok().and_then(|text| Some(front_matter::split_leniently(text).ok()?.0));
    let version = head.as_ref().and_then(|head| head.pointer("/metadata/version")).and_then(version);
    let mut runner = json!({
        "id": folder,
        "execution_modes": ["auto", "interactive"],
        "entrypoint": {"type": "prompt", "prompt": {"result_mode": "message"}},
        "artifacts": [{"pattern": "**", "required": false}],
    });
    if let Some(version) = version {
        runner["version"] = version.into();
    }
    let input = json!({
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "x-input-source": "inline", "description": "What the skill is to do."},
            "files": {"type": "array", "x-input-source": "files", "description": "Any files that it is to work on."},
        },
        "required": ["prompt"],
        "additionalProperties": false,
    });
    let output = json!({
        "type": "object",
        "properties": {"message": {"type": "string", "description": "The last message, if it holds no JSON."}},
    });
    let made = [(manifest::PATH, runner), (INPUT, input), (OUTPUT, output)];
    made.into_iter()
        .filter(|(path, _)| !files.contains(path))
        .map(|(path, value)| (path, format!("{value:#}\n")))
        .collect()
}

/// A version that can be compared; authors write `1.0` or `2`, too.
fn version(written: &Value) -> Option<String> {
    let text = written.as_str().map(str::to_owned).or_else(|| written.is_number().then(|| written.to_string()))?;
    let text = text.trim().trim_start_matches('v');
    let parts = text.split('.').count();
    let whole = format!("{text}{}", ".0".repeat(3_usize.saturating_sub(parts)));
    whole.parse::<semver::Version>().ok().map(|version| version.to_string())
}

/// The files with those that are made for it.
pub(crate) fn completed(folder: &str, files: &PackageFiles) -> PackageFiles {
    let mut completed = files.clone();
    for (path, text) in generated(folder, files) {
        completed.insert(path, text.into_bytes());
    }
    completed
}

/// The head as this runner reads it: tools that know the format are less strict about names and values.
pub(crate) fn tidied(folder: &str, head: Value) -> Value {
    let Value::Object(mut fields) = head else { return head };
    fields.insert("name".into(), folder.into());
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.values_mut().for_each(as_text);
    }
    for key in ["license", "compatibility"] {
        fields.get_mut(key).into_iter().for_each(as_text);
    }
    if !fields.get("metadata").is_none_or(Value::is_object) {
        fields.remove("metadata");
    }
    let listed = |tools: &Value| tools.as_array().is_some_and(|tools| tools.iter().all(Value::is_string));
    if !fields.get("allowed-tools").is_none_or(|tools| tools.is_string() || listed(tools)) {
        fields.remove("allowed-tools");
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.chars().take(DESCRIPTION_MAX).collect();
    }
    if let Some(Value::String(text)) = fields.get_mut("compatibility") {
        *text = text.chars().take(COMPATIBILITY_MAX).collect();
    }
    Value::Object(fields)
}

/// As the published schema of the front matter says.
const DESCRIPTION_MAX: usize = 1024;
const COMPATIBILITY_MAX: usize = 500;

fn as_text(value: &mut Value) {
    if !value.is_string() {
        *value = value.to_string().into();
    }
}

/// `SKILL.md` with the head as this runner reads it; none where that is the same.
pub(crate) fn rewritten(folder: &str, text: &str) -> Option<String> {
    let (head, body, quoted) = front_matter::split_leniently(text).ok()?;
    let tidied = tidied(folder, head.clone());
    if tidied == head && quoted.is_empty() {
        return None;
    }
    Some(format!("---\n{}---\n\n{body}", serde_norway::to_string(&Plain(&tidied)).ok()?))
}

/// Tells which values are text only for readers that go by lines.
pub(crate) fn tell_quoted(keys: &[String], report: &mut Report) {
    for key in keys {
        let message = format!("the value of {key:?} is not YAML as it is written; it is read as text");
        let hint = "put it in double quotes: strict readers of the format skip the skill";
        let finding = Finding::error(FindingCode::FrontMatterInvalid, front_matter::PATH, message, hint);
        report.push(finding.into_warning().at(format!("/{}", escape(key))));
    }
}

/// Tells what the skill is taken for, and where its name is another one.
pub(crate) fn tell(folder: &str, head: Option<&Value>, report: &mut Report) {
    let message = format!(
        "there is no {}, so it runs as a prompt skill: input \"prompt\" and any files, the last message as its result",
        manifest::PATH
    );
    let hint = "to give it schemas of its own, let `skill-runner skill import` write the whole package";
    report.push(Finding::error(FindingCode::OpenFormat, "", message, hint).into_warning());
    let name = head.and_then(|head| head.get("name")).and_then(Value::as_str);
    if let Some(name) = name.filter(|name| *name != folder) {
        let message = format!("name is {name:?}, but the folder is {folder:?}; the skill is known by its folder");
        let finding = Finding::error(FindingCode::NameMismatch, front_matter::PATH, message, "give both the same name");
        report.push(finding.into_warning().at("/name"));
    }
}
