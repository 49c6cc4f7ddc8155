//! The three schemas of a skill: found, readable, compiled, and with valid extensions.

use serde_json::{Value, json};

use super::super::finding::{Finding, Report, escape};
use super::super::input_schema::{file_fields, inline_schema, is_closed, properties};
use super::super::package::{PackageFiles, stays_inside};
use super::super::schema::Validator;
use super::super::{artifacts, manifest};
use super::intake::Intake;
use super::keys;
use super::required::required_json;
use crate::domain::codes::FindingCode;

const INPUT_META: &str = include_str!("../../../schema/input-schema.schema.json");
const PARAMETER_META: &str = include_str!("../../../schema/parameter-schema.schema.json");
const OUTPUT_META: &str = include_str!("../../../schema/output-schema.schema.json");

/// The schemas and their compiled forms.
pub(crate) struct Schemas {
    pub(crate) input: Value,
    pub(crate) parameter: Value,
    pub(crate) output: Value,
    pub(crate) inline_input: Validator,
    pub(crate) parameter_check: Validator,
    pub(crate) output_check: Validator,
}

struct Found {
    file: String,
    schema: Value,
    compiled: Validator,
}

pub(crate) fn read(
    files: &PackageFiles,
    runner: Option<&Value>,
    intake: Intake,
    report: &mut Report,
) -> Option<Schemas> {
    // Without a readable manifest the paths of the schemas are unknown, so they are not checked.
    let runner = runner?;
    // All three are read before any error returns, so that one lint reports everything.
    let input = found("input", INPUT_META, files, runner, report);
    let parameter = found("parameter", PARAMETER_META, files, runner, report);
    let output = found("output", OUTPUT_META, files, runner, report);
    if let Some(input) = &input {
        file_names(input, report);
        nameless(input, intake, report);
    }
    if let Some(output) = &output {
        artifact_names(output, report);
    }
    if let (Some(input), Some(parameter)) = (&input, &parameter) {
        clashes(input, parameter, intake, report);
    }
    let (input, parameter, output) = (input?, parameter?, output?);
    Some(Schemas {
        // A part of a schema that compiles may still fail, when a reference pointed into what was taken out.
        inline_input: compiled(&inline_schema(&input.schema), &input.file, report)?,
        input: input.schema,
        parameter: parameter.schema,
        output: output.schema,
        parameter_check: parameter.compiled,
        output_check: output.compiled,
    })
}

fn found(kind: &str, meta: &'static str, files: &PackageFiles, runner: &Value, report: &mut Report) -> Option<Found> {
    let usual = format!("assets/{kind}.schema.json");
    let pointer = format!("/schemas/{kind}");
    let written = runner.pointer(&pointer).and_then(Value::as_str);
    if written.is_none() && !files.contains(&usual) {
        let none = json!({ "type": "object", "properties": {} });
        return Some(Found { file: usual, compiled: Validator::new(&none).ok()?, schema: none });
    }
    let path = written.unwrap_or(&usual);
    if !stays_inside(path) {
        let message = format!("{path:?} is not a relative path inside the package");
        let hint = format!("write {usual}");
        report.push(Finding::error(FindingCode::PathUnsafe, manifest::PATH, message, hint).at(pointer));
        return None;
    }
    let schema = required_json(files, path, report)?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        let message = format!("the {kind} schema does not say \"type\": \"object\" at its top");
        report.push(Finding::error(FindingCode::SchemaNotObject, path, message, "add it").at("/type"));
    }
    keys::violations(meta, &without_said_type(&schema), path, FindingCode::SchemaExtensionInvalid, report);
    let compiled = compiled(&schema, path, report)?;
    Some(Found { file: path.into(), schema, compiled })
}

/// The top-level type has its own finding, so the meta-schema must not report it again.
fn without_said_type(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("type".into(), json!("object"));
    }
    schema
}

fn compiled(schema: &Value, file: &str, report: &mut Report) -> Option<Validator> {
    Validator::new(schema)
        .inspect_err(|error| {
            let hint = "correct the schema; references to other documents are not followed";
            let finding = Finding::error(FindingCode::SchemaInvalid, file, error.message.clone(), hint);
            report.push_unless_said(finding.at(error.path.clone()));
        })
        .ok()
}

/// A file input is uploaded under its field's name, so that must be a valid file name.
fn file_names(input: &Found, report: &mut Report) {
    for field in file_fields(&input.schema) {
        if field.name.contains('/') || !stays_inside(&field.name) {
            let message = format!("the file input {:?} cannot be a file's name", field.name);
            let hint = "rename it, or make it \"x-input-source\": \"inline\"";
            let finding = Finding::error(FindingCode::InputNameUnsafe, &input.file, message, hint);
            report.push(finding.at(format!("/properties/{}", escape(&field.name))));
        }
    }
}

/// An input that is required and has no field can be given neither as a file nor as JSON.
fn nameless(input: &Found, intake: Intake, report: &mut Report) {
    if !is_closed(&input.schema) {
        return;
    }
    let required = input.schema.get("required").and_then(Value::as_array);
    for (index, name) in required.into_iter().flatten().enumerate() {
        let Some(name) = name.as_str() else { continue };
        if !properties(&input.schema).any(|(field, _)| field == name) {
            let message = format!("{name:?} is required, but no such input is declared");
            let hint = "add it to properties, or take it from required";
            let finding = Finding::error(FindingCode::RequiredUnknown, &input.file, message, hint);
            report.push(intake.grade(finding.at(format!("/required/{index}"))));
        }
    }
}

fn artifact_names(output: &Found, report: &mut Report) {
    for (name, field) in artifacts::artifact_fields(&output.schema) {
        let pattern = field.get("x-filename").and_then(Value::as_str).unwrap_or(name);
        if let Some(fault) = artifacts::pattern_fault(pattern) {
            let message = format!("the artifact {pattern:?} cannot be used: {fault}");
            let hint = "set x-filename to a name such as report.md";
            let finding = Finding::error(FindingCode::ArtifactPatternInvalid, &output.file, message, hint);
            report.push(finding.at(format!("/properties/{}", escape(name))));
        }
    }
}

fn clashes(input: &Found, parameter: &Found, intake: Intake, report: &mut Report) {
    for (name, _) in properties(&parameter.schema) {
        if properties(&input.schema).any(|(other, _)| other == name) {
            let message = format!("{name:?} is both an input and a parameter; the parameter wins");
            let finding = Finding::error(FindingCode::NameClash, &parameter.file, message, "rename one of them");
            report.push(intake.grade(finding.at(format!("/properties/{}", escape(name)))));
        }
    }
}
