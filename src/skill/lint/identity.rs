//! The skill's identity: front matter, folder, id and version must agree.

use serde_json::Value;

use super::super::finding::{Finding, Report};
use super::super::front_matter::{self, PATH};
use super::super::manifest;
use super::super::package::PackageFiles;
use super::required::required_text;
use super::{keys, open_format};
use crate::domain::codes::FindingCode;

const SCHEMA: &str = include_str!("../../../schema/skill-front-matter.schema.json");
const ID_RULE: &str = "use 1 to 64 of a-z, 0-9 and -, without - at either end and without --";

/// Whether a text can be a skill's id.
pub(crate) fn is_id(text: &str) -> bool {
    let parts_are_plain = text
        .split('-')
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    text.len() <= 64 && parts_are_plain
}

/// The head of `SKILL.md` and what follows it. That of a skill in the open format is read as its other readers would.
pub(crate) fn front_matter<'a>(
    folder: &str,
    files: &'a PackageFiles,
    is_open: bool,
    report: &mut Report,
) -> Option<(Value, &'a str)> {
    let text = required_text(files, PATH, report)?;
    let split = if is_open {
        front_matter::split_leniently(text)
    } else {
        front_matter::split(text).map(|(head, body)| (head, body, Vec::new()))
    };
    let (mut head, body, quoted) = match split {
        Ok(parts) => parts,
        Err(error) => {
            let hint = "begin the file with ---, name: …, description: … and another ---";
            report.push(Finding::error(FindingCode::FrontMatterInvalid, PATH, error.to_string(), hint));
            return None;
        }
    };
    if is_open {
        open_format::tell(folder, Some(&head), report);
        open_format::tell_quoted(&quoted, report);
        head = open_format::tidied(folder, head);
    }
    if head.get("description").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty()) {
        let hint = "say in 1 to 1024 characters what the skill does and when to use it";
        report.push(
            Finding::error(FindingCode::DescriptionEmpty, PATH, "the description is empty", hint).at("/description"),
        );
    }
    keys::check(SCHEMA, &head, PATH, report);
    Some((head, body))
}

pub(crate) fn check(folder: &str, head: Option<&Value>, runner: Option<&Value>, report: &mut Report) {
    if !is_id(folder) {
        let message = format!("the folder's name {folder:?} cannot be a skill's id");
        report.push(Finding::error(FindingCode::NameInvalid, "", message, ID_RULE));
    }
    agrees(folder, head, "name", PATH, report);
    agrees(folder, runner, "id", manifest::PATH, report);
    let version = runner.and_then(|runner| runner.get("version")).and_then(Value::as_str);
    if let Some(version) = version
        && let Err(error) = version.parse::<semver::Version>()
    {
        let message = format!("{version:?} is not a semantic version: {error}");
        let hint = "write three numbers, such as 1.0.0";
        report.push(Finding::error(FindingCode::VersionInvalid, manifest::PATH, message, hint).at("/version"));
    }
}

fn agrees(folder: &str, holder: Option<&Value>, key: &str, file: &str, report: &mut Report) {
    let Some(name) = holder.and_then(|holder| holder.get(key)).and_then(Value::as_str) else { return };
    if name != folder {
        let message = format!("{key} is {name:?}, but the folder is {folder:?}");
        let hint = "give the folder, runner.json's id and SKILL.md's name the same value";
        report.push(Finding::error(FindingCode::NameMismatch, file, message, hint).at(format!("/{key}")));
    }
}
