//! The lint: from the files of a package to a skill, or to everything that is wrong with it.

mod contents;
mod engines;
mod entrypoint;
mod identity;
mod intake;
mod keys;
mod open_format;
mod python;
mod required;
mod runner_json;
mod schemas;
#[cfg(test)]
pub(crate) mod tests;

use serde_json::Value;

pub(crate) use identity::is_id;
pub use intake::Intake;
pub(crate) use open_format::{generated, is_open, rewritten};

use super::case_fold::first_clash;
use super::checked::{Checks, Skill};
use super::finding::{Finding, Report};
use super::front_matter::{self, FrontMatter};
use super::manifest::{self, Manifest};
use super::package::PackageFiles;
use super::python::PythonNeeds;
use crate::domain::codes::FindingCode;

/// Checks a package whose folder has this name. On refusal the findings include the warnings.
pub(crate) fn lint(folder: &str, files: &PackageFiles, intake: Intake) -> Result<Skill, Vec<Finding>> {
    let mut report = Report::default();
    let is_open = open_format::is_open(files);
    let completed = is_open.then(|| open_format::completed(folder, files));
    if let Some(path) = first_clash(files.paths()) {
        let message = "its name, or that of a folder on its way, differs from another one only in case";
        let hint = "rename one of them: where case is ignored, they are one";
        report.push(intake.grade(Finding::error(FindingCode::NameClash, path, message, hint)));
    }
    let (package, files) = (files, completed.as_ref().unwrap_or(files));
    let head = identity::front_matter(folder, files, is_open, &mut report);
    let runner = runner_json::read(files, head.as_ref().map(|(head, _)| head), intake, &mut report);
    identity::check(folder, head.as_ref().map(|(head, _)| head), runner.as_ref(), &mut report);
    let schemas = schemas::read(files, runner.as_ref(), intake, &mut report);
    if let Some(runner) = &runner {
        engines::check(runner, &mut report);
        entrypoint::check(runner, files, &mut report);
        python::check(runner, files, intake, &mut report);
        contents::check(runner, files, schemas.as_ref(), intake, &mut report);
        runner_json::check(runner, intake, &mut report);
    }
    let parts = (head, runner, schemas);
    match assembled(package, parts, &mut report) {
        Some(skill) if !report.has_errors() => Ok(Skill { findings: report.into_findings(), ..skill }),
        Some(_) | None => Err(report.into_findings()),
    }
}

type Parts<'a> = (Option<(Value, &'a str)>, Option<Value>, Option<schemas::Schemas>);

fn assembled(files: &PackageFiles, parts: Parts<'_>, report: &mut Report) -> Option<Skill> {
    let (Some((head, body)), Some(runner), Some(schemas)) = parts else { return None };
    if report.has_errors() {
        return None;
    }
    let manifest: Manifest = typed(runner, manifest::PATH, report)?;
    let front_matter: FrontMatter = typed(head, front_matter::PATH, report)?;
    let version = manifest.version.parse().ok()?;
    let python = PythonNeeds::of(&manifest, files);
    Some(Skill {
        id: manifest.id.clone(),
        version,
        name: manifest.name.clone().unwrap_or_else(|| manifest.id.clone()),
        description: front_matter.description.trim().into(),
        manifest,
        front_matter,
        input_schema: schemas.input,
        parameter_schema: schemas.parameter,
        output_schema: schemas.output,
        body: body.into(),
        fingerprint: files.fingerprint(),
        findings: Vec::new(),
        python,
        checks: Checks {
            inline_input: schemas.inline_input,
            parameter: schemas.parameter_check,
            output: schemas.output_check,
        },
    })
}

/// Reads a value that fits the published schema. That can only fail for a number beyond the type's range.
fn typed<T: serde::de::DeserializeOwned>(value: Value, file: &'static str, report: &mut Report) -> Option<T> {
    serde_json::from_value(value)
        .inspect_err(|error| {
            report.push(Finding::error(FindingCode::ValueOutOfRange, file, error.to_string(), "use a smaller value"));
        })
        .ok()
}
