//! The artifacts a run has to produce: declared in the manifest, or inferred from the output schema.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifest::DeclaredArtifact;
use super::package::stays_inside;

use crate::bounded;
use crate::domain::run_file::RunFolder;

/// The role of an artifact without a stated one.
const DEFAULT_ROLE: &str = "output";

/// One rule of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRule {
    /// What the artifact is for.
    pub role: String,
    /// A glob relative to the run's `artifacts/`.
    pub pattern: String,
    /// Its media type, where the manifest names one.
    pub mime: Option<String>,
    /// Whether a run without it has failed.
    pub required: bool,
}

/// The manifest's rules, or, when it has none, those of the output schema.
pub(crate) fn contract(declared: &[DeclaredArtifact], output_schema: &Value) -> Vec<ArtifactRule> {
    if declared.is_empty() { inferred(output_schema) } else { declared.iter().map(rule).collect() }
}

fn rule(declared: &DeclaredArtifact) -> ArtifactRule {
    ArtifactRule {
        role: declared.role.clone().unwrap_or_else(|| DEFAULT_ROLE.into()),
        pattern: below_artifacts(&declared.pattern).into(),
        mime: declared.mime.clone(),
        required: declared.required,
    }
}

fn inferred(output_schema: &Value) -> Vec<ArtifactRule> {
    let required = |field: &str| {
        let names = output_schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|name| name == field))
    };
    let text = |field: &Value, key: &str| field.get(key).and_then(Value::as_str).map(String::from);
    artifact_fields(output_schema)
        .map(|(name, field)| ArtifactRule {
            role: text(field, "x-role").unwrap_or_else(|| DEFAULT_ROLE.into()),
            pattern: below_artifacts(&text(field, "x-filename").unwrap_or_else(|| name.clone())).into(),
            mime: None,
            required: required(name),
        })
        .collect()
}

/// The fields of an output schema that stand for files.
pub(crate) fn artifact_fields(output_schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let is_file = |field: &Value| matches!(field.get("x-type").and_then(Value::as_str), Some("artifact" | "file"));
    let properties = output_schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().filter(move |(_, field)| is_file(field))
}

/// `artifacts/x` and `x` are the same place.
fn below_artifacts(pattern: &str) -> &str {
    RunFolder::Artifacts.strip(pattern).unwrap_or(pattern)
}

/// Why a pattern cannot be used, if it cannot.
pub(crate) fn pattern_fault(pattern: &str) -> Option<String> {
    let pattern = below_artifacts(pattern);
    if !stays_inside(pattern) {
        return Some("it is not a relative path below artifacts/, with / and without . or ..".into());
    }
    bounded::glob::glob(pattern).err()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artifact(role: &str, pattern: &str, required: bool) -> ArtifactRule {
        ArtifactRule { role: role.into(), pattern: pattern.into(), mime: None, required }
    }

    #[test]
    fn declared_artifacts_come_before_inferred_ones() {
        let schema = json!({ "required": ["plain", "named"], "properties": {
            "plain": { "x-type": "artifact" },
            "named": { "x-type": "file", "x-filename": "artifacts/n.md", "x-role": "report" },
            "optional": { "x-type": "file" },
            "value": { "type": "string" },
            "open": true
        } });
        assert_eq!(
            contract(&[], &schema),
            [
                artifact("output", "plain", true),
                artifact("report", "n.md", true),
                artifact("output", "optional", false)
            ]
        );
        let declared: Vec<DeclaredArtifact> =
            serde_json::from_value(json!([{ "pattern": "artifacts/*.md", "required": true }])).unwrap();
        assert_eq!(contract(&declared, &schema), [artifact("output", "*.md", true)]);
    }

    #[test]
    fn a_pattern_that_leaves_the_artifacts_is_a_fault() {
        for good in ["a.md", "artifacts/a.md", "sub/**/*.png", "{a,b}.txt"] {
            assert_eq!(pattern_fault(good), None, "{good}");
        }
        for bad in ["/a", "../a", "artifacts/../../a", "artifacts/", "a\\b", "C:/a", "[a", ""] {
            assert!(pattern_fault(bad).is_some(), "{bad}");
        }
    }
}
