//! The content of files that the manifest names: templates must compile, configurations must be readable.

use serde_json::Value;

use super::super::finding::{Finding, Report, escape};
use super::super::manifest::{self, Template};
use super::super::package::{NoText, PackageFiles};
use super::intake::Intake;
use crate::bounded;
use crate::domain::codes::FindingCode;
use crate::engine::{self, Adapter, config};

pub(crate) fn check(runner: &Value, files: &PackageFiles, intake: Intake, report: &mut Report) {
    let general = runner.pointer("/entrypoint/prompt/template").and_then(Value::as_str);
    if let Some(written) = general {
        template(written, "/entrypoint/prompt/template", files, intake, report);
    }
    let of_engines = runner.pointer("/entrypoint/prompts").and_then(Value::as_object);
    for (engine, written) in of_engines.into_iter().flatten() {
        if let Some(written) = written.as_str() {
            template(written, &format!("/entrypoint/prompts/{}", escape(engine)), files, intake, report);
        }
    }
    for adapter in engine::adapters() {
        let configs = runner.get("engine_configs");
        let named = configs.and_then(|configs| configs.get(adapter.name())).and_then(Value::as_str);
        configuration(adapter, named.unwrap_or(adapter.config.skill_file), files, intake, report);
    }
}

fn template(written: &str, pointer: &str, files: &PackageFiles, intake: Intake, report: &mut Report) {
    let (text, file, pointer) = match Template::of(written) {
        Template::Inline(text) => (text, manifest::PATH, pointer),
        Template::Path(path) => match files.text(path) {
            Ok(text) => (text, path, ""),
            // A missing file has been reported already.
            Err(NoText::Absent) => return,
            Err(NoText::TooLarge | NoText::NotUtf8) => {
                let message = format!("the template {path:?} is not a text of at most 1 MiB");
                let finding =
                    Finding::error(FindingCode::TemplateInvalid, path, message, "save it as UTF-8, and shorter");
                return report.push(intake.grade(finding));
            }
        },
    };
    if let Some(fault) = bounded::template::fault(text) {
        let message = format!("the template does not compile: {fault}");
        let hint = "correct it there; {{ input.x }} and {{ parameter.x }} stand for values";
        report.push(intake.grade(Finding::error(FindingCode::TemplateInvalid, file, message, hint).at(pointer)));
    }
}

fn configuration(adapter: &Adapter, path: &str, files: &PackageFiles, intake: Intake, report: &mut Report) {
    let read = match files.text(path) {
        Ok(text) => adapter.config.format.read(text),
        Err(NoText::Absent) => return,
        Err(NoText::TooLarge | NoText::NotUtf8) => Err("it is not UTF-8 text of at most 1 MiB".into()),
    };
    let reason = match read {
        Ok(layer @ Value::Object(_)) => return keys(adapter, path, &layer, intake, report),
        Ok(_) => "it must be an object of keys and values".into(),
        Err(reason) => reason,
    };
    let message = format!("the configuration of {} cannot be used: {reason}", adapter.name());
    let finding =
        Finding::error(FindingCode::ConfigInvalid, path, message, "correct it; see the engine's own documentation");
    report.push(intake.grade(finding));
}

fn keys(adapter: &Adapter, path: &str, layer: &Value, intake: Intake, report: &mut Report) {
    for refused in config::refused(adapter.config.allowed, layer) {
        let message = format!("{} in the configuration of {}: {}", refused.shown(), adapter.name(), refused.reason);
        let hint = format!("remove it; docs/engines/{}.md lists the keys that a skill may set", adapter.name());
        let pointer: String = refused.path.iter().map(|step| format!("/{}", escape(step))).collect();
        report.push(intake.grade(Finding::error(FindingCode::ConfigKeyRefused, path, message, hint).at(pointer)));
    }
}
