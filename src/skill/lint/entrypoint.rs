//! What a run starts: templates, commands and configuration files that are there.

use serde_json::Value;

use super::super::command;
use super::super::finding::{Finding, Report, escape};
use super::super::manifest::{self, EntrypointKind, Template};
use super::super::package::{PackageFiles, stays_inside};
use super::engines;
use crate::domain::codes::FindingCode;
use crate::domain::engine::Engine;

/// Folders that only a package has: a word below them means a file of the package.
const PACKAGE_FOLDERS: [&str; 3] = ["scripts/", "assets/", "references/"];

pub(crate) fn check(runner: &Value, files: &PackageFiles, report: &mut Report) {
    templates(runner, files, report);
    for pointer in ["/entrypoint/script/command", "/normalizer/command", "/fallback/command"] {
        if let Some(command) = runner.pointer(pointer).and_then(Value::as_str) {
            check_command(command, pointer, files, report);
        }
    }
    for (engine, path) in entries(runner, "/engine_configs") {
        package_file(path, &format!("/engine_configs/{}", escape(engine)), files, report);
    }
    if let Some(kind) = engines::kind(runner) {
        fits(kind, runner, report);
    }
    if let Some(path) = runner.pointer("/entrypoint/prompt/result_file").and_then(Value::as_str)
        && !stays_inside(path)
    {
        let message = format!("result_file {path:?} is not a relative path inside the run");
        let hint = "write a path such as result/result.json";
        let finding = Finding::error(FindingCode::PathUnsafe, manifest::PATH, message, hint);
        report.push(finding.at("/entrypoint/prompt/result_file"));
    }
}

fn fits(kind: EntrypointKind, runner: &Value, report: &mut Report) {
    let has_script = runner.pointer("/entrypoint/script").is_some();
    match kind {
        EntrypointKind::Script | EntrypointKind::Hybrid if !has_script => {
            let message = "the entrypoint has no script to run";
            let hint = "add \"script\": {\"command\": \"python3 scripts/run.py\"}";
            report.push(
                Finding::error(FindingCode::ScriptMissing, manifest::PATH, message, hint).at("/entrypoint/script"),
            );
        }
        EntrypointKind::Prompt if has_script => {
            let message = "a prompt skill runs no script; this one is never started";
            let hint = "make the entrypoint hybrid, or remove the script";
            let finding = Finding::error(FindingCode::ScriptUnused, manifest::PATH, message, hint);
            report.push(finding.into_warning().at("/entrypoint/script"));
        }
        EntrypointKind::Prompt | EntrypointKind::Script | EntrypointKind::Hybrid => {}
    }
    let modes = runner.get("execution_modes").and_then(Value::as_array);
    let interactive = modes.is_some_and(|modes| modes.iter().any(|mode| mode == "interactive"));
    if kind == EntrypointKind::Script && interactive {
        let message = format!("the engine \"{}\" cannot ask questions", Engine::Script);
        let finding = Finding::error(FindingCode::ModeUnfit, manifest::PATH, message, "keep \"auto\" alone");
        report.push(finding.into_warning().at("/execution_modes"));
    }
}

fn templates(runner: &Value, files: &PackageFiles, report: &mut Report) {
    let general = runner.pointer("/entrypoint/prompt/template").and_then(Value::as_str);
    let written = general.map(|template| ("/entrypoint/prompt/template".into(), template));
    let of_engines = entries(runner, "/entrypoint/prompts")
        .map(|(engine, template)| (format!("/entrypoint/prompts/{}", escape(engine)), template));
    for (pointer, template) in written.into_iter().chain(of_engines) {
        match Template::of(template) {
            Template::Inline(_) => {}
            Template::Path(path) => package_file(path, &pointer, files, report),
        }
    }
}

fn entries<'a>(runner: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a String, &'a str)> {
    let keyed = runner.pointer(pointer).and_then(Value::as_object);
    keyed.into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_str()?)))
}

fn package_file(path: &str, pointer: &str, files: &PackageFiles, report: &mut Report) {
    if files.contains(path) {
        return;
    }
    let (code, message) = if stays_inside(path) {
        (FindingCode::FileMissing, format!("the package has no file {path:?}"))
    } else {
        (FindingCode::PathUnsafe, format!("{path:?} is not a relative path inside the package"))
    };
    let hint = "write the path of a file of the package, relative to its folder";
    report.push(Finding::error(code, manifest::PATH, message, hint).at(pointer));
}

fn check_command(text: &str, pointer: &str, files: &PackageFiles, report: &mut Report) {
    let words = match command::split(text) {
        Ok(words) => words,
        Err(error) => {
            let hint = "write a program and its arguments, such as python3 scripts/run.py";
            report
                .push(Finding::error(FindingCode::CommandInvalid, manifest::PATH, error.to_string(), hint).at(pointer));
            return;
        }
    };
    for path in words.iter().map(|word| command::package_path(word)) {
        let of_the_package = PACKAGE_FOLDERS.iter().any(|folder| path.starts_with(folder));
        if of_the_package && !files.contains(path) {
            let message = format!("the command names {path:?}, which the package does not have");
            let hint = "add the file, or correct the command";
            report.push(Finding::error(FindingCode::FileMissing, manifest::PATH, message, hint).at(pointer));
        }
    }
}
