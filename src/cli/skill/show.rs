//! `skill show`: what a skill is, what it takes and returns, and what it may do.

use std::io;

use serde_json::{Map, Value, json};

use crate::cli::failure::Failure;
use crate::cli::skill::{findings, isolation, lifecycle};
use crate::cli::terminal::look::{Ink, Look, harmless_name};
use crate::cli::terminal::{output, table};
use crate::domain::codes::ErrorCode;
use crate::domain::engine::Engine;
use crate::orchestrator::IsolationOfSkill;
use crate::registry::{Installed, NotUsable, builtin};
use crate::settings::Settings;
use crate::skill::automation::Network;
use crate::skill::fields::fields;
use crate::skill::manifest::EntrypointKind;
use crate::skill::{Finding, Skill};

/// Most files that are listed.
const FILES_SHOWN: usize = 40;

pub(crate) fn show(settings: &Settings, name: &str, as_json: bool) -> Result<(), Failure> {
    let registry = lifecycle::registry(settings);
    match registry.lookup(name) {
        Ok(installed) => shown(settings, &installed, installed.dir.display().to_string(), as_json),
        Err(NotUsable::Invalid { findings }) => broken(name, &findings, as_json),
        Err(NotUsable::Unread(shortage)) => Err(shortage.into()),
        Err(NotUsable::NotFound) => match builtin::load(name) {
            Some(installed) => shown(settings, &installed, "in the program itself".to_owned(), as_json),
            None => lifecycle::told(Err(lifecycle::unknown_everywhere(&registry, settings, name)), as_json),
        },
    }
}

fn broken(name: &str, found: &[Finding], as_json: bool) -> Result<(), Failure> {
    if as_json {
        output::json(&json!({"id": name, "valid": false, "findings": found}))?;
    } else {
        output::line(&Look::of(&io::stdout()).paint(Ink::Bad, &format!("{name} is installed, and broken:")))?;
        findings::show(found)?;
    }
    Err(Failure::Reported(ErrorCode::SkillNotFound.info().exit))
}

fn shown(settings: &Settings, installed: &Installed, place: String, as_json: bool) -> Result<(), Failure> {
    let skill = &installed.skill;
    let isolation = isolation::of(settings, skill);
    if as_json {
        return output::json(&document(installed, &place, &isolation));
    }
    let look = Look::of(&io::stdout());
    let columns = table::columns();
    let version = if skill.version == semver::Version::new(0, 0, 0) {
        "without a version".into()
    } else {
        skill.version.to_string()
    };
    let mut lines = vec![look.paint(Ink::Good, &format!("{} {version}", skill.id))];
    lines.extend(table::wrapped(&skill.description, columns));
    lines.push(String::new());
    let facts: Vec<Vec<String>> =
        facts(skill, place, &isolation).into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    // No head: the first row is one like the others.
    lines.extend(table::lines(&facts, columns));
    for (title, schema) in
        [("Input", &skill.input_schema), ("Parameter", &skill.parameter_schema), ("Output", &skill.output_schema)]
    {
        lines.push(String::new());
        lines.extend(schema_lines(title, schema, skill, look, columns));
    }
    lines.push(String::new());
    lines.push(look.paint(Ink::Dim, "Files"));
    lines.extend(installed.files.iter().take(FILES_SHOWN).map(|file| format!("  {}", harmless_name(file))));
    if let Some(more) = installed.files.len().checked_sub(FILES_SHOWN).filter(|more| *more > 0) {
        lines.push(format!("  and {more} more"));
    }
    output::line(&lines.join("\n"))?;
    if skill.findings.is_empty() {
        return Ok(());
    }
    output::line("")?;
    findings::show(&skill.findings)
}

fn schema_lines(title: &str, schema: &Value, skill: &Skill, look: Look, columns: usize) -> Vec<String> {
    let rows = fields(schema);
    if rows.is_empty() {
        let any = schema["additionalProperties"] != json!(false);
        let what = if any { "any object" } else { "no fields" };
        return vec![format!("{}  {what}", look.paint(Ink::Dim, title))];
    }
    let files: Vec<String> = if title == "Input" {
        skill.file_fields().into_iter().chain(skill.rest_field()).map(|field| field.name).collect()
    } else {
        Vec::new()
    };
    let heads = ["  FIELD", "TYPE", "REQUIRED", "DEFAULT", "ABOUT"].map(str::to_owned).to_vec();
    let mut table = vec![heads];
    table.extend(rows.into_iter().map(|field| {
        let kind = if files.contains(&field.name) { "file".to_owned() } else { field.kind };
        let required = if field.required { "yes" } else { "no" };
        vec![
            format!("  {}", harmless_name(&field.name)),
            kind,
            required.into(),
            field.default.unwrap_or_default(),
            field.about,
        ]
    }));
    std::iter::once(look.paint(Ink::Dim, title)).chain(table::lines(&table, columns)).collect()
}

/// What is said about a skill in a word or two.
fn facts(skill: &Skill, place: String, isolation: &IsolationOfSkill) -> Vec<(&'static str, String)> {
    let manifest = &skill.manifest;
    let kind = match manifest.entrypoint.kind {
        EntrypointKind::Prompt => "prompt: an engine follows its instructions",
        EntrypointKind::Script => "script: no model is needed",
        EntrypointKind::Hybrid => "hybrid: an engine, then a script",
    };
    let automation = &manifest.automation;
    let modes: Vec<String> =
        manifest.execution_modes.iter().filter_map(|mode| Some(json!(mode).as_str()?.to_owned())).collect();
    let network = match automation.network {
        None => "as the operator allows".to_owned(),
        Some(Network::On) => "on".to_owned(),
        Some(Network::Off) => "off".to_owned(),
        Some(Network::Allowlist) => format!("only {}", automation.allowlist.join(", ")),
    };
    let mut facts = vec![("fingerprint", skill.fingerprint.clone()), ("place", place), ("type", kind.to_owned())];
    if let Some(script) = &manifest.entrypoint.script {
        facts.push(("command", script.command.clone()));
    }
    if let Some(template) = &manifest.entrypoint.prompt.template {
        let inline = template.contains("{{") || template.contains('\n');
        facts.push(("prompt", if inline { "in runner.json".to_owned() } else { template.clone() }));
    }
    facts.push(("engines", Engine::names(&skill.effective_engines())));
    if !manifest.unsupported_engines.is_empty() {
        facts.push(("not on", Engine::names(&manifest.unsupported_engines)));
    }
    for (engine, models) in &manifest.models {
        facts.push(("models", format!("{engine}: {}", models.join(", "))));
    }
    facts.push(("modes", modes.join(", ")));
    facts.push(("network", network));
    facts.push(("file system", automation.fs_scope.clone().unwrap_or_else(|| "as the operator allows".to_owned())));
    facts.push(("isolation", isolation_here(isolation)));
    facts.push(("tools", tools(skill)));
    facts.push(("limits", limits(skill)));
    facts
}

/// What confines its runs on this machine.
fn isolation_here(isolation: &IsolationOfSkill) -> String {
    let here = isolation.here.in_words();
    match isolation.not_enforced.as_slice() {
        [] => here,
        asked => format!("{here}; {} is not enforced", asked.join(" and ")),
    }
}

fn tools(skill: &Skill) -> String {
    match &skill.front_matter.allowed_tools {
        None | Some(Value::Null) => "as the engine allows".to_owned(),
        Some(Value::String(tools)) => tools.clone(),
        Some(Value::Array(tools)) => {
            tools.iter().map(|tool| tool.as_str().unwrap_or_default()).collect::<Vec<_>>().join(", ")
        }
        Some(other) => other.to_string(),
    }
}

fn limits(skill: &Skill) -> String {
    let mut limits: Vec<String> = Vec::new();
    limits.extend(skill.timeout_seconds().map(|seconds| format!("{seconds} s for an attempt")));
    limits.extend(skill.manifest.max_attempt.map(|most| format!("{most} attempts")));
    let asked = json!(skill.manifest.automation);
    let more = asked["limits"].as_object().into_iter().flatten().filter(|(_, limit)| !limit.is_null());
    limits.extend(more.map(|(name, limit)| format!("{} {limit}", name.replace('_', " "))));
    if limits.is_empty() { "those of the service".to_owned() } else { limits.join(", ") }
}

fn document(installed: &Installed, place: &str, isolation: &IsolationOfSkill) -> Value {
    let skill = &installed.skill;
    let mut document = Map::new();
    let fields = [
        ("id", json!(skill.id)),
        ("version", json!(skill.version.to_string())),
        ("name", json!(skill.name)),
        ("description", json!(skill.description)),
        ("fingerprint", json!(skill.fingerprint)),
        ("valid", json!(true)),
        ("place", json!(place)),
        ("type", json!(skill.manifest.entrypoint.kind)),
        ("entrypoint", json!(skill.manifest.entrypoint)),
        ("engines", json!(skill.effective_engines())),
        ("unsupported_engines", json!(skill.manifest.unsupported_engines)),
        ("models", json!(skill.manifest.models)),
        ("execution_modes", json!(skill.manifest.execution_modes)),
        ("max_attempt", json!(skill.manifest.max_attempt)),
        ("timeout_seconds", json!(skill.timeout_seconds())),
        ("automation", json!(skill.manifest.automation)),
        ("isolation", json!(isolation)),
        ("allowed_tools", json!(skill.front_matter.allowed_tools)),
        ("runtime", json!(skill.manifest.runtime)),
        ("artifacts", json!(skill.artifact_contract())),
        (
            "schemas",
            json!({"input": skill.input_schema, "parameter": skill.parameter_schema, "output": skill.output_schema}),
        ),
        ("files", json!(installed.files)),
        ("findings", json!(skill.findings)),
    ];
    document.extend(fields.map(|(key, value)| (key.to_owned(), value)));
    Value::Object(document)
}
