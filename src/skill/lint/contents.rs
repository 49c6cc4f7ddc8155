//! The content of files that the manifest names: templates must compile, configurations must be readable.

use serde_json::Value;

use super::super::finding::{Finding, Report, escape};
use super::super::input_schema::{is_closed, properties};
use super::super::manifest::{self, Template};
use super::super::package::{NoText, PackageFiles};
use super::super::template_names::{self, OF_SKILL, Used, VARIABLES};
use super::intake::Intake;
use super::schemas::Schemas;
use crate::bounded;
use crate::domain::codes::FindingCode;
use crate::engine::{self, Adapter, config};

pub(crate) fn check(
    runner: &Value,
    files: &PackageFiles,
    schemas: Option<&Schemas>,
    intake: Intake,
    report: &mut Report,
) {
    let general = runner.pointer("/entrypoint/prompt/template").and_then(Value::as_str);
    if let Some(written) = general {
        template(written, "/entrypoint/prompt/template", files, schemas, intake, report);
    }
    let of_engines = runner.pointer("/entrypoint/prompts").and_then(Value::as_object);
    for (engine, written) in of_engines.into_iter().flatten() {
        if let Some(written) = written.as_str() {
            template(written, &format!("/entrypoint/prompts/{}", escape(engine)), files, schemas, intake, report);
        }
    }
    for adapter in engine::adapters() {
        let configs = runner.get("engine_configs");
        let named = configs.and_then(|configs| configs.get(adapter.name())).and_then(Value::as_str);
        configuration(adapter, named.unwrap_or(adapter.config.skill_file), files, intake, report);
    }
}

fn template(
    written: &str,
    pointer: &str,
    files: &PackageFiles,
    schemas: Option<&Schemas>,
    intake: Intake,
    report: &mut Report,
) {
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
        return report
            .push(intake.grade(Finding::error(FindingCode::TemplateInvalid, file, message, hint).at(pointer)));
    }
    for used in template_names::used(text) {
        if let Some(fault) = unknown(&used, schemas) {
            let message = format!("line {}: {fault}", used.line);
            let hint = "correct the name, or add the field to the schema; docs/skills.md lists the variables";
            report.push(intake.grade(Finding::error(FindingCode::TemplateInvalid, file, message, hint).at(pointer)));
        }
    }
}

/// What is wrong with a variable that does not exist.
fn unknown(used: &Used, schemas: Option<&Schemas>) -> Option<String> {
    let Used { name, member, .. } = used;
    if !VARIABLES.contains(&name.as_str()) {
        return Some(format!("there is no variable {name:?}; there are {}", VARIABLES.join(", ")));
    }
    let member = member.as_deref()?;
    let schema = match (name.as_str(), schemas) {
        ("input", Some(schemas)) => &schemas.input,
        ("parameter", Some(schemas)) => &schemas.parameter,
        ("skill", _) if !OF_SKILL.contains(&member) => {
            return Some(format!("there is no variable \"skill.{member}\"; skill has {}", OF_SKILL.join(", ")));
        }
        _ => return None,
    };
    let fields: Vec<&str> = properties(schema).map(|(field, _)| field.as_str()).collect();
    // A schema that lists no fields and takes any says nothing about names.
    let any = fields.is_empty() && !is_closed(schema);
    (!any && !fields.contains(&member)).then(|| {
        let has = if fields.is_empty() { "no fields".to_owned() } else { fields.join(", ") };
        format!("there is no variable \"{name}.{member}\": the {name} schema has {has}")
    })
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
        let message =
            format!("{:?} in the configuration of {} is refused: {}", refused.shown(), adapter.name(), refused.reason);
        let hint = format!("remove it; docs/engines/{}.md lists the keys that a skill may set", adapter.name());
        let pointer: String = refused.path.iter().map(|step| format!("/{}", escape(step))).collect();
        report.push(intake.grade(Finding::error(FindingCode::ConfigKeyRefused, path, message, hint).at(pointer)));
    }
}
