//! The operator's two layers of an engine's configuration, and where each value in force comes from.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::keys::refused;
use super::kind::Kind;
use super::layer::{Invalid, check_form, lay_over};
use crate::domain::request::ExecutionMode;

/// What stands in the place of a value that the operator set: it may be anything.
const HIDDEN: &str = "(set by the operator)";

/// One of the operator's files.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OperatorLayer {
    /// Its path.
    pub(crate) file: String,
    value: Value,
}

impl OperatorLayer {
    /// Reads the text of a file. The operator may set any key.
    pub(crate) fn read(kind: &Kind, file: String, text: &str) -> Result<Self, Invalid> {
        let invalid = |reason: String| Invalid::Unusable { layer: file.clone(), reason };
        let value = kind.format.read(text).map_err(invalid)?;
        check_form(&value, kind).map_err(|reason| invalid(reason.to_owned()))?;
        Ok(Self { file, value })
    }
}

/// What the operator wrote for an engine: below the skill's and the request's configuration, and above them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Operator {
    pub(crate) default: Option<OperatorLayer>,
    pub(crate) enforced: Option<OperatorLayer>,
}

impl Operator {
    pub(super) fn lay_default(&self, config: &mut Value) {
        self.default.iter().for_each(|layer| lay_over(config, layer.value.clone()));
    }

    pub(super) fn lay_enforced(&self, config: &mut Value) {
        self.enforced.iter().for_each(|layer| lay_over(config, layer.value.clone()));
    }

    /// The configuration as it may be shown: values of the operator are left out, but for those that anybody may set.
    pub(crate) fn shown(&self, kind: &Kind, config: &Value) -> Value {
        let mut shown = config.clone();
        for layer in [&self.default, &self.enforced].into_iter().flatten() {
            hide(kind, &layer.value, &mut shown, &mut Vec::new());
        }
        shown
    }
}

fn hide(kind: &Kind, operators: &Value, shown: &mut Value, path: &mut Vec<String>) {
    match (operators, &mut *shown) {
        (Value::Object(operators), Value::Object(shown)) => {
            for (key, value) in operators {
                let Some(inner) = shown.get_mut(key) else { continue };
                path.push(key.clone());
                hide(kind, value, inner, path);
                path.pop();
            }
        }
        (operators, found) if *operators == *found && !anybody_may_set(kind, path, operators) => {
            *shown = HIDDEN.into();
        }
        // A layer above has another value.
        _ => {}
    }
}

fn anybody_may_set(kind: &Kind, path: &[String], value: &Value) -> bool {
    let nested = path.iter().rev().fold(value.clone(), |inner, key| Map::from_iter([(key.clone(), inner)]).into());
    refused(kind.allowed, &nested).is_empty()
}

/// A value of an engine's configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sourced {
    /// Its place, dotted.
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) source: String,
    /// Whether no skill or request can change it.
    pub(crate) enforced: bool,
}

/// Every value that an engine is given whatever skill is run, and who set it; sorted by key.
pub(crate) fn sources(kind: &Kind, operator: &Operator) -> Vec<Sourced> {
    let of_file = |layer: &Option<OperatorLayer>, enforced: bool| {
        layer.as_ref().map(|layer| (layer.value.clone(), layer.file.clone(), enforced))
    };
    let layers = [
        Some(((kind.defaults)(), "built in".to_owned(), false)),
        of_file(&operator.default, false),
        of_file(&operator.enforced, true),
        Some(((kind.enforced)(ExecutionMode::Auto), "built in".to_owned(), true)),
    ];
    let mut found = BTreeMap::new();
    for (value, source, enforced) in layers.into_iter().flatten() {
        leaves(&value, &mut Vec::new(), &mut |path, value| {
            // What lies above a table takes its place, and the other way round.
            found.retain(|other: &Vec<String>, _| !other.starts_with(path) && !path.starts_with(other));
            found.insert(path.to_vec(), (value.clone(), source.clone(), enforced));
        });
    }
    let sourced =
        |(path, (value, source, enforced)): (Vec<String>, _)| Sourced { key: path.join("."), value, source, enforced };
    found.into_iter().map(sourced).collect()
}

fn leaves(value: &Value, path: &mut Vec<String>, each: &mut impl FnMut(&[String], &Value)) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                path.push(key.clone());
                leaves(value, path, each);
                path.pop();
            }
        }
        value if !path.is_empty() => each(path, value),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Layers, merge};
    use super::*;
    use crate::engine::{codex, gemini};

    fn layer(kind: &Kind, file: &str, text: &str) -> Option<OperatorLayer> {
        Some(OperatorLayer::read(kind, file.to_owned(), text).unwrap())
    }

    #[test]
    fn the_operators_default_lies_below_skill_and_request_and_what_he_enforces_above() {
        let kind = &codex::ADAPTER.config;
        let operator = Operator {
            default: layer(kind, "d", "model = \"d\"\nmodel_verbosity = \"low\"\nmodel_reasoning_effort = \"low\""),
            enforced: layer(kind, "e", "model_reasoning_effort = \"high\"\napproval_policy = \"on-request\""),
        };
        let request = json!({"model": "asked", "model_reasoning_effort": "medium"});
        let skill = "model = \"skills\"\nmodel_verbosity = \"high\"";
        let layers = |skill_file, request| Layers {
            operator: &operator,
            skill_file,
            request,
            model: None,
            mode: ExecutionMode::Auto,
        };
        let of = |skill, request| {
            let config = merge(kind, &layers(skill, request)).unwrap();
            ["model", "model_verbosity", "model_reasoning_effort", "approval_policy"]
                .map(|key| config[key].as_str().unwrap().to_owned())
        };
        assert_eq!(of(None, None), ["d", "low", "high", "never"]);
        assert_eq!(of(Some(skill), None), ["skills", "high", "high", "never"]);
        assert_eq!(of(Some(skill), Some(&request)), ["asked", "high", "high", "never"]);
    }

    #[test]
    fn each_value_has_its_source_and_a_table_gives_way_to_what_lies_above() {
        let kind = &gemini::ADAPTER.config;
        let operator = Operator {
            default: layer(kind, "d.json", r#"{"general": {"maxAttempts": 7}, "mcpServers": {"a": {"command": "x"}}}"#),
            enforced: layer(kind, "e.json", r#"{"mcpServers": {}, "telemetry": {"enabled": true}}"#),
        };
        let found = sources(kind, &operator);
        let of = |key: &str| {
            let found = found.iter().find(|found| found.key == key);
            found.map(|found| (found.value.clone(), found.source.as_str(), found.enforced))
        };
        assert_eq!(of("general.maxAttempts"), Some((json!(7), "d.json", false)));
        assert_eq!(of("mcpServers"), Some((json!({}), "e.json", true)));
        assert_eq!(of("mcpServers.a.command"), None);
        assert_eq!(of("telemetry.enabled"), Some((json!(false), "built in", true)), "what the runner needs wins");
    }

    #[test]
    fn values_that_only_the_operator_may_set_are_not_shown() {
        let kind = &codex::ADAPTER.config;
        let text = "model = \"m\"\nmodel_verbosity = \"low\"\n[model_providers.x]\nhttp_headers = { a = \"secret\" }";
        let operator = Operator { default: layer(kind, "d", text), enforced: None };
        let config = json!({
            "model": "asked", "model_verbosity": "low", "approval_policy": "never",
            "model_providers": {"x": {"http_headers": {"a": "secret"}}},
        });
        let mut expected = config.clone();
        expected["model_providers"]["x"]["http_headers"]["a"] = HIDDEN.into();
        assert_eq!(operator.shown(kind, &config), expected);
    }
}
