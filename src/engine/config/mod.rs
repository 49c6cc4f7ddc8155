//! An engine's configuration in layers: engine default, the operator's default, the skill's file, the request, what the operator enforces, what
//! the runner needs. Below them lies what the operator wrote into the engine's home, which the engine reads itself.

mod keys;
mod operator;

use serde_json::{Map, Value};

use super::model_name::is_model_name;
use crate::domain::codes::ErrorCode;
use crate::domain::outcome::RunError;
use crate::domain::request::{ExecutionMode, Passed};
pub(crate) use keys::{Key, RefusedKey, Takes, refused};
pub(crate) use operator::{Operator, OperatorLayer, Sourced, sources};

/// Deepest nesting that is merged; nothing an engine reads is nested that far.
const DEPTH_MAX: usize = 32;

/// The name of a skill's layer in messages.
pub(crate) const SKILL: &str = "the skill";

/// How an engine's configuration is written, and its lowest and highest layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) format: Format,
    /// The skill's file when its manifest names none.
    pub(crate) skill_file: &'static str,
    /// What a skill or a request may set.
    pub(crate) allowed: &'static [Key],
    pub(crate) defaults: fn() -> Value,
    /// What stands in the engine's home until the operator writes something else there.
    pub(crate) home: fn() -> Value,
    pub(crate) enforced: fn(ExecutionMode) -> Value,
    /// The key of the model's name, with dots between its parts.
    pub(crate) model_key: &'static str,
    /// How hard the model thinks, for engines that can be told.
    pub(crate) effort: Option<Effort>,
    /// The operator's own configuration, below the engine's home.
    pub(crate) operator_file: &'static str,
    /// Variables by which an operator may name a model.
    pub(crate) model_variables: &'static [&'static str],
}

/// Where the effort of a model stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) key: &'static str,
    /// Whether a request may write it behind the model's name: `name@effort`.
    pub(crate) in_model: bool,
}

/// What an engine with this configuration is told, by its layers or else by its operator: in a file, whose text `operator` is, or
/// in a variable that is passed to the engine. `shown` is the configuration as it may be shown: no option in it can be a secret.
pub(crate) fn passed(
    kind: &Kind,
    (config, shown): (&Value, &Value),
    operator: Option<&str>,
    env: &[(String, String)],
) -> Passed {
    let below = operator.and_then(|text| kind.format.read(text).ok()).unwrap_or_default();
    let of = |key: &str| {
        let found = text_at(config, key).or_else(|| text_at(&below, key));
        // Whatever an operator wrote there, only what can be such a name is shown.
        found.filter(|found| is_model_name(found)).map(str::to_owned)
    };
    let variable = || {
        let named = |name: &&str| env.iter().find(|(passed, _)| passed == name).map(|(_, value)| value.clone());
        kind.model_variables.iter().find_map(named).filter(|model| is_model_name(model))
    };
    let mut options = shown.clone();
    for key in [Some(kind.model_key), kind.effort.map(|effort| effort.key)].into_iter().flatten() {
        remove_at(&mut options, key);
    }
    Passed {
        model: of(kind.model_key).or_else(variable),
        effort: kind.effort.and_then(|effort| of(effort.key)),
        options: options.as_object().cloned().unwrap_or_default(),
    }
}

/// The model that a configuration names.
pub(crate) fn model<'a>(kind: &Kind, config: &'a Value) -> Option<&'a str> {
    text_at(config, kind.model_key)
}

/// The effort that a configuration names.
pub(crate) fn effort<'a>(kind: &Kind, config: &'a Value) -> Option<&'a str> {
    kind.effort.and_then(|effort| text_at(config, effort.key))
}

fn text_at<'a>(config: &'a Value, key: &str) -> Option<&'a str> {
    key.split('.').try_fold(config, |value, part| value.get(part))?.as_str()
}

fn remove_at(config: &mut Value, key: &str) {
    let Some(entries) = config.as_object_mut() else { return };
    match key.split_once('.') {
        None => {
            entries.remove(key);
        }
        Some((part, rest)) => {
            if let Some(inner) = entries.get_mut(part) {
                remove_at(inner, rest);
                if inner.as_object().is_some_and(Map::is_empty) {
                    entries.remove(part);
                }
            }
        }
    }
}

/// An object with this value at a key with dots.
fn at(key: &str, value: &str) -> Value {
    key.rsplit('.').fold(Value::from(value), |inner, part| Value::Object(Map::from_iter([(part.to_owned(), inner)])))
}

/// The format of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Toml,
    Json,
}

impl Format {
    /// What the name of such a file ends with.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Toml => "toml",
            Self::Json => "json",
        }
    }

    /// The text of a file of this format as a JSON value.
    pub(crate) fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Toml => toml::from_str(text).map_err(|error| format!("it is not TOML: {error}")),
            Self::Json => serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}")),
        }
    }
}

/// The layers that differ from run to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layers<'a> {
    pub(crate) operator: &'a Operator,
    /// The text of the skill's file.
    pub(crate) skill_file: Option<&'a str>,
    /// `<engine>_config` of the request.
    pub(crate) request: Option<&'a Value>,
    /// `model` of the request.
    pub(crate) model: Option<&'a str>,
    pub(crate) mode: ExecutionMode,
}

/// A layer that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Invalid {
    #[error("the configuration from {layer} cannot be used: {reason}")]
    Unusable { layer: String, reason: String },
    #[error("the configuration from {layer} is refused: {}", keys::list(refused))]
    Refused { layer: &'static str, refused: Vec<RefusedKey> },
}

impl From<Invalid> for RunError {
    fn from(invalid: Invalid) -> Self {
        let message = invalid.to_string();
        match invalid {
            Invalid::Unusable { layer, .. } => {
                RunError::new(ErrorCode::EngineConfigInvalid, message).with("layer", layer)
            }
            Invalid::Refused { layer, refused } => {
                let named: Vec<String> = refused.iter().map(RefusedKey::shown).collect();
                RunError::new(ErrorCode::EngineConfigRefused, message).with("layer", layer).with("keys", named)
            }
        }
    }
}

/// The configuration in force.
pub(crate) fn merge(kind: &Kind, layers: &Layers<'_>) -> Result<Value, Invalid> {
    let mut config = (kind.defaults)();
    layers.operator.lay_default(&mut config);
    if let Some(text) = layers.skill_file {
        let skill = kind.format.read(text).map_err(|reason| Invalid::Unusable { layer: SKILL.to_owned(), reason })?;
        lay_over(&mut config, check(skill, kind, SKILL)?);
    }
    if let Some(request) = layers.request {
        lay_over(&mut config, check(request.clone(), kind, "the request")?);
    }
    if let Some(model) = layers.model {
        let effort = kind.effort.filter(|effort| effort.in_model);
        match effort.and_then(|effort| Some((effort.key, model.rsplit_once('@')?))) {
            Some((key, (name, effort))) => {
                lay_over(&mut config, at(kind.model_key, name));
                lay_over(&mut config, at(key, effort));
            }
            None => lay_over(&mut config, at(kind.model_key, model)),
        }
    }
    layers.operator.lay_enforced(&mut config);
    lay_over(&mut config, (kind.enforced)(layers.mode));
    Ok(config)
}

/// The configuration without any skill or request: the first settings of an engine's home.
pub(crate) fn base(kind: &Kind, mode: ExecutionMode) -> Value {
    let mut config = (kind.defaults)();
    lay_over(&mut config, (kind.home)());
    lay_over(&mut config, (kind.enforced)(mode));
    config
}

fn check(layer: Value, kind: &Kind, name: &'static str) -> Result<Value, Invalid> {
    check_form(&layer, kind)
        .map_err(|reason| Invalid::Unusable { layer: name.to_owned(), reason: reason.to_owned() })?;
    match refused(kind.allowed, &layer) {
        refused if refused.is_empty() => Ok(layer),
        refused => Err(Invalid::Refused { layer: name, refused }),
    }
}

/// Why a layer cannot be merged, whoever wrote it.
fn check_form(layer: &Value, kind: &Kind) -> Result<(), &'static str> {
    if !layer.is_object() {
        return Err("it must be an object of keys and values");
    }
    if depth(layer) > DEPTH_MAX {
        return Err("it is nested too deeply");
    }
    if kind.format == Format::Toml && has_null(layer) {
        return Err("it holds a null, which TOML does not have; leave the key out");
    }
    Ok(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(entries) => entries.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Objects are merged key by key; everything else is replaced.
pub(crate) fn lay_over(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                match below.get_mut(&key) {
                    Some(under) => lay_over(under, value),
                    None => {
                        below.insert(key, value);
                    }
                }
            }
        }
        (below, above) => *below = above,
    }
}

/// For engines whose home needs nothing, or that have no defaults.
pub(crate) fn nothing() -> Value {
    Value::Object(Map::new())
}

#[cfg(test)]
mod tests;
