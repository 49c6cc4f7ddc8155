//! The Python packages that a skill declares: requirements that can be read, once, for commands that there are.

use serde_json::Value;

use super::super::finding::{Finding, Report};
use super::super::manifest::{self, PythonPackages};
use super::super::package::PackageFiles;
use super::super::python::{self, Fault};
use super::intake::Intake;
use crate::domain::codes::FindingCode;

const POINTER: &str = "/runtime/python";
const COMMANDS: [&str; 3] = ["/entrypoint/script/command", "/normalizer/command", "/fallback/command"];

pub(crate) fn check(runner: &Value, files: &PackageFiles, intake: Intake, report: &mut Report) {
    let commands: Vec<&str> = COMMANDS.iter().filter_map(|at| runner.pointer(at).and_then(Value::as_str)).collect();
    let written = runner.pointer(POINTER);
    if let Some(written) = written {
        if commands.is_empty() {
            let message = "the skill runs no command of its own that would use these packages";
            let hint = "remove runtime.python, or add a script, a normalizer or a fallback";
            let finding = Finding::error(FindingCode::DependenciesUnused, manifest::PATH, message, hint);
            report.push(finding.into_warning().at(POINTER));
        }
        // What does not have the shape of a declaration is told by the published schema.
        if let Ok(packages) = serde_json::from_value::<PythonPackages>(written.clone())
            && let Err(Fault { key, reason }) = python::declared(&packages, files)
        {
            let hint =
                "write requirements as pip reads them, such as requests>=2.31 or ./wheels/tool-1.0-py3-none-any.whl";
            let finding = Finding::error(FindingCode::DependenciesInvalid, manifest::PATH, reason, hint);
            report.push(finding.at(format!("{POINTER}/{key}")));
        }
    }
    let mut scripts: Vec<(String, Option<Fault>)> = Vec::new();
    for (script, found) in commands.iter().filter_map(|command| python::inline_of(command, files)) {
        if !scripts.iter().any(|(known, _)| *known == script) {
            scripts.push((script, found.err()));
        }
    }
    for (script, fault) in scripts {
        if written.is_some() {
            let message = format!("{script} declares Python packages in its head, and runtime.python does so, too");
            let hint = "keep one of the two: runtime.python is for all commands, the head of a script for that script";
            report.push(Finding::error(FindingCode::DependenciesTwice, manifest::PATH, message, hint).at(POINTER));
        }
        if let Some(Fault { reason, .. }) = fault {
            let hint = "correct the block # /// script in its head, as PEP 723 describes it";
            // A package from before the runner read such blocks stays installed.
            report.push(intake.grade(Finding::error(FindingCode::DependenciesInvalid, &script, reason, hint)));
        }
    }
}
