//! `assets/runner.json` as a whole: its shape, outdated keys, limits and artifacts.

use serde_json::{Value, json};

use super::super::artifacts;
use super::super::automation::{Automation, FILE_SCOPES, FileScope};
use super::super::finding::{Finding, Report, escape};
use super::super::manifest;
use super::super::package::PackageFiles;
use super::intake::Intake;
use super::keys;
use super::required::required_json;
use crate::bounded::host;
use crate::domain::codes::FindingCode;

const SCHEMA: &str = include_str!("../../../schema/runner.schema.json");

/// The version of a skill that names none.
const UNVERSIONED: &str = "0.0.0";

/// The manifest's JSON, with what packages may leave out filled in; `head` is the front matter.
pub(crate) fn read(files: &PackageFiles, head: Option<&Value>, intake: Intake, report: &mut Report) -> Option<Value> {
    let mut runner = required_json(files, manifest::PATH, report)?;
    if let Some(fields) = runner.as_object_mut() {
        if fields.contains_key("unsupport_engine") {
            let message = "the key \"unsupport_engine\" is no longer read; it is called \"unsupported_engines\"";
            let hint = "rename it to \"unsupported_engines\"";
            report.push(Finding::error(FindingCode::OldKey, manifest::PATH, message, hint).at("/unsupport_engine"));
        }
        if !fields.contains_key("execution_modes") {
            let message = "execution_modes is missing; packages from before it was required are read as [\"auto\"]";
            let hint = "add \"execution_modes\": [\"auto\"], with \"interactive\" if the skill may ask";
            let finding = Finding::error(FindingCode::ExecutionModesMissing, manifest::PATH, message, hint);
            report.push(intake.grade(finding.at("/execution_modes")));
            fields.insert("execution_modes".into(), json!(["auto"]));
        }
        let of_front_matter = || head.and_then(|head| head.pointer("/metadata/version")).cloned();
        fields.entry("version").or_insert_with(|| of_front_matter().unwrap_or_else(|| UNVERSIONED.into()));
        fields.entry("entrypoint").or_insert_with(|| json!({ "type": "prompt" }));
        fields.entry("schemas").or_insert_with(|| json!({}));
    }
    Some(runner)
}

/// Rules about single keys, then the published schema for everything they did not mention.
pub(crate) fn check(runner: &Value, intake: Intake, report: &mut Report) {
    artifact_patterns(runner, report);
    network(runner, report);
    file_scope(runner, report);
    default_options(runner, intake, report);
    keys::check(SCHEMA, runner, manifest::PATH, report);
}

fn artifact_patterns(runner: &Value, report: &mut Report) {
    let declared = runner.get("artifacts").and_then(Value::as_array);
    for (index, artifact) in declared.into_iter().flatten().enumerate() {
        let Some(pattern) = artifact.get("pattern").and_then(Value::as_str) else { continue };
        if let Some(fault) = artifacts::pattern_fault(pattern) {
            let message = format!("the pattern {pattern:?} cannot be used: {fault}");
            let hint = "write a glob such as report.md or images/*.png";
            let finding = Finding::error(FindingCode::ArtifactPatternInvalid, manifest::PATH, message, hint);
            report.push(finding.at(format!("/artifacts/{index}/pattern")));
        }
    }
}

/// A run uses these as if its client had sent them, so an option that a client may not send makes every run fail.
fn default_options(runner: &Value, intake: Intake, report: &mut Report) {
    let Some(options) = runner.pointer("/runtime/default_options").and_then(Value::as_object) else { return };
    let known = keys::properties(SCHEMA, "/properties/runtime/properties/default_options/properties");
    for name in options.keys().filter(|name| !known.contains(name)) {
        let message = format!("there is no runtime option {name:?}, and every run of the skill would be refused");
        let hint = format!("remove it, or use one of: {}", known.join(", "));
        let finding = Finding::error(FindingCode::OptionUnknown, manifest::PATH, message, hint);
        report.push(finding.at(format!("/runtime/default_options/{}", escape(name))));
    }
    let modes = runner.get("execution_modes").and_then(Value::as_array);
    if let (Some(mode), Some(modes)) = (options.get("execution_mode").and_then(Value::as_str), modes)
        && !modes.iter().any(|supported| supported == mode)
    {
        let message = format!("the default execution_mode {mode:?} is not among the skill's execution_modes");
        let hint = "name one of execution_modes, or leave it out for \"auto\"";
        let finding = Finding::error(FindingCode::ModeUnfit, manifest::PATH, message, hint);
        report.push(intake.grade(finding.at("/runtime/default_options/execution_mode")));
    }
}

fn file_scope(runner: &Value, report: &mut Report) {
    let Some(scope) = runner.pointer("/automation/fs_scope").and_then(Value::as_str) else { return };
    let automation = Automation { fs_scope: Some(scope.to_owned()), ..Automation::default() };
    if automation.file_scope() == FileScope::Unknown {
        let message = format!("{scope:?} is not known, and is taken for \"run\"");
        let hint = format!("write {FILE_SCOPES}, or leave it out");
        let finding = Finding::error(FindingCode::FsScopeUnknown, manifest::PATH, message, hint);
        report.push(finding.into_warning().at("/automation/fs_scope"));
    }
}

/// Hosts that nobody could be reached by.
fn hosts(automation: &Value, report: &mut Report) {
    for (at, text) in automation.get("allowlist").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let Some(text) = text.as_str().filter(|text| !text.is_empty() && host::read(text).is_none()) else { continue };
        let message = format!("{text:?} is no host, so nobody is reached by it");
        let hint = "write a name, *.name or name:port, without a scheme or a path";
        let finding = Finding::error(FindingCode::AllowlistHostInvalid, manifest::PATH, message, hint);
        report.push(finding.into_warning().at(format!("/automation/allowlist/{at}")));
    }
}

fn network(runner: &Value, report: &mut Report) {
    let Some(automation) = runner.get("automation") else { return };
    hosts(automation, report);
    let listed = automation.get("allowlist").and_then(Value::as_array).is_some_and(|hosts| !hosts.is_empty());
    let by_list = automation.get("network").and_then(Value::as_str) == Some("allowlist");
    let (message, hint) = match (by_list, listed) {
        (true, false) => ("network is \"allowlist\", but the allowlist is empty", "name the hosts, or say \"off\""),
        (false, true) => {
            ("the allowlist is only read when network is \"allowlist\"", "set network, or remove the list")
        }
        (true, true) | (false, false) => return,
    };
    let finding = Finding::error(FindingCode::AllowlistUnused, manifest::PATH, message, hint);
    report.push(finding.into_warning().at("/automation/allowlist"));
}
