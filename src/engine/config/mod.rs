//! An engine's configuration in layers: engine default, the operator's default, the skill's file, the request, what the operator enforces, what
//! the runner needs. Below them lies what the operator wrote into the engine's home, which the engine reads itself.

mod keys;
mod kind;
mod layer;
mod operator;

use serde_json::{Map, Value};

use super::model_name::is_model_name;
use crate::domain::request::{ExecutionMode, Passed};
pub(crate) use keys::{Key, Takes, refused};
pub(crate) use kind::{Effort, Format, Kind, ModelVariables};
use layer::check_form;
pub(crate) use layer::{Invalid, lay_over};
pub(crate) use operator::{Operator, OperatorLayer, Sourced, sources};

/// The name of a skill's layer in messages.
pub(crate) const SKILL: &str = "the skill";

/// What an engine with this configuration is told, by its layers or else by its operator: in a file, whose text `operator` is, or
/// in a variable that is passed to the engine. `shown` is the configuration as it may be shown: no option in it can be a secret.
pub(crate) fn passed(
    kind: &Kind,
    (config, shown): (&Value, &Value),
    operator: Option<&str>,
    env: &[(String, String)],
) -> Passed {
    let below = operator.and_then(|text| kind.format.read(text).ok()).unwrap_or_default();
    let variable = |name: &str| {
        let found = env.iter().find(|(passed, value)| passed == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    };
    let of_operator = || {
        let in_file = text_at(&below, kind.model_key);
        match kind.model_variables {
            ModelVariables::AboveTheFile(names) => names.iter().find_map(|name| variable(name)).or(in_file),
            ModelVariables::BelowTheFile(names) => in_file.or_else(|| names.iter().find_map(|name| variable(name))),
            ModelVariables::None => in_file,
        }
    };
    let model = text_at(config, kind.model_key).or_else(of_operator);
    let effort = kind.effort.and_then(|effort| {
        let in_files = || text_at(config, effort.key).or_else(|| text_at(&below, effort.key));
        effort.variable.and_then(variable).or_else(in_files)
    });
    // Whatever an operator wrote there, only what can be such a name is shown.
    let shown_name = |found: Option<&str>| found.filter(|found| is_model_name(found)).map(str::to_owned);
    let mut options = shown.clone();
    for key in [Some(kind.model_key), kind.effort.map(|effort| effort.key)].into_iter().flatten() {
        remove_at(&mut options, key);
    }
    Passed {
        model: shown_name(model),
        effort: shown_name(effort),
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

/// For engines whose home needs nothing, or that have no defaults.
pub(crate) fn nothing() -> Value {
    Value::Object(Map::new())
}

#[cfg(test)]
mod tests;
