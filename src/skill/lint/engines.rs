//! Which engines a skill runs on: known names, no contradiction, and at least one left.

use serde_json::Value;

use super::super::engines::effective_engines;
use super::super::finding::{Finding, Report, escape};
use super::super::manifest::{self, EntrypointKind};
use crate::domain::codes::FindingCode;
use crate::domain::engine::{Engine, UnknownEngine};

pub(crate) fn check(runner: &Value, report: &mut Report) {
    let engines = names(runner, "engines");
    let unsupported = names(runner, "unsupported_engines").unwrap_or_default();
    for (key, listed) in [("engines", engines.as_deref().unwrap_or_default()), ("unsupported_engines", &unsupported)] {
        for (index, name) in listed.iter().enumerate() {
            known(name, &format!("/{key}/{index}"), report);
        }
    }
    for key in ["engine_configs", "models", "/entrypoint/prompts"] {
        let pointer = if key.starts_with('/') { key.into() } else { format!("/{key}") };
        let keyed = runner.pointer(&pointer).and_then(Value::as_object);
        for name in keyed.into_iter().flatten().map(|(name, _)| name) {
            known(name, &format!("{pointer}/{}", escape(name)), report);
        }
    }
    overlap(engines.as_deref().unwrap_or_default(), &unsupported, report);
    if let Some(kind) = kind(runner) {
        let read = |names: &[String]| names.iter().map(|name| name.parse()).collect::<Result<Vec<Engine>, _>>();
        // An unknown name has been reported; whether the rest fits is checked once it is corrected.
        if let (Ok(engines), Ok(unsupported)) = (engines.as_deref().map(read).transpose(), read(&unsupported)) {
            let prompt = runner.pointer("/entrypoint/prompt").or_else(|| runner.pointer("/entrypoint/prompts"));
            let has_prompt = prompt.and_then(Value::as_object).is_some_and(|prompt| !prompt.is_empty());
            fits(kind, has_prompt, engines.as_deref(), &unsupported, report);
        }
    }
}

pub(crate) fn kind(runner: &Value) -> Option<EntrypointKind> {
    serde_json::from_value(runner.pointer("/entrypoint/type")?.clone()).ok()
}

fn names(runner: &Value, key: &str) -> Option<Vec<String>> {
    let listed = runner.get(key)?.as_array()?;
    Some(listed.iter().filter_map(Value::as_str).map(String::from).collect())
}

fn known(name: &str, pointer: &str, report: &mut Report) {
    let Err(UnknownEngine { name }) = name.parse::<Engine>() else { return };
    let message = format!("there is no engine {name:?}");
    let hint = format!("use one of: {}", Engine::names(Engine::ALL));
    report.push(Finding::error(FindingCode::EngineUnknown, manifest::PATH, message, hint).at(pointer));
}

fn overlap(engines: &[String], unsupported: &[String], report: &mut Report) {
    for name in engines.iter().filter(|name| unsupported.contains(name)) {
        let message = format!("{name:?} is in both engines and unsupported_engines");
        let hint = "keep it in one of them";
        report.push(
            Finding::error(FindingCode::EnginesOverlap, manifest::PATH, message, hint).at("/unsupported_engines"),
        );
    }
}

fn fits(
    kind: EntrypointKind,
    has_prompt: bool,
    engines: Option<&[Engine]>,
    unsupported: &[Engine],
    report: &mut Report,
) {
    let named = engines.unwrap_or_default();
    let finding = match kind {
        EntrypointKind::Script if !has_prompt && named.iter().any(|engine| *engine != Engine::Script) => {
            Finding::error(
                FindingCode::EngineUnfit,
                manifest::PATH,
                "a script skill without a prompt runs on the engine \"script\" only",
                "remove engines, add entrypoint.prompt for the other engines, or make the entrypoint prompt or hybrid",
            )
        }
        EntrypointKind::Prompt | EntrypointKind::Hybrid if named.contains(&Engine::Script) => Finding::error(
            FindingCode::EngineUnfit,
            manifest::PATH,
            "the engine \"script\" runs no prompts",
            "remove it from engines, or make the entrypoint script",
        ),
        EntrypointKind::Prompt | EntrypointKind::Script | EntrypointKind::Hybrid => {
            if !effective_engines(kind, has_prompt, engines, unsupported).is_empty() {
                return;
            }
            Finding::error(
                FindingCode::EnginesEmpty,
                manifest::PATH,
                "no engine is left to run this skill on",
                "remove engines to allow all, or list fewer in unsupported_engines",
            )
        }
    };
    report.push(finding.at("/engines"));
}
