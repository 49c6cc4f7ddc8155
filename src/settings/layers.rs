//! The layers of configuration merged: for each setting the value of the highest layer, and its source.

use std::collections::BTreeMap;
use std::fmt;

use serde_norway::Value;

use crate::bounded;

use super::keys::{self, Key};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// It is not set.
    Default,
    File {
        path: String,
    },
    Environment {
        variable: String,
    },
    Flag {
        flag: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path } => f.write_str(path),
            Self::Environment { variable } => f.write_str(variable),
            Self::Flag { flag } => f.write_str(flag),
        }
    }
}

/// A setting that keeps the service from starting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} ({place}): {message}")]
pub struct Problem {
    /// The setting, or the unknown name.
    pub(crate) key: String,
    /// Where it was set.
    pub(crate) place: String,
    /// What is wrong, and what would be right.
    pub(crate) message: String,
}

/// A value as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Given {
    Text(String),
    /// Several; only the file can have a list.
    List(Vec<String>),
}

/// The value given for each setting, and its source.
pub(crate) type Layers = BTreeMap<String, (Given, Source)>;

/// Merges file, environment and flags; the later wins.
pub(crate) fn lay(
    file: Option<(&str, &str)>,
    env: &BTreeMap<String, String>,
    flags: &[(String, String)],
    problems: &mut Vec<Problem>,
) -> Layers {
    let keys = keys::all();
    let mut layers = Layers::new();
    if let Some((path, text)) = file {
        from_file(path, text, &keys, &mut layers, problems);
    }
    from_environment(env, &keys, &mut layers, problems);
    for (name, value) in flags {
        let flag = format!("--{}", name.replace('_', "-"));
        if known(&keys, name) {
            layers.insert(name.clone(), (Given::Text(value.clone()), Source::Flag { flag }));
        } else {
            problems.push(Problem { key: name.clone(), place: flag, message: unknown(name) });
        }
    }
    layers
}

fn unknown_variable(variable: &str) -> String {
    let name = variable.trim_start_matches("SKILL_RUNNER_").to_lowercase();
    match keys::nearest(&name) {
        Some(nearest) => format!("there is no such setting; did you mean {}?", keys::variable(&nearest)),
        None => "there is no such setting; `skill-runner config` lists them all".to_owned(),
    }
}

fn unknown(name: &str) -> String {
    match keys::nearest(name) {
        Some(nearest) => format!("there is no such setting; did you mean {nearest}?"),
        None => "there is no such setting; `skill-runner config` lists them all".to_owned(),
    }
}

fn known(keys: &[Key], name: &str) -> bool {
    keys.iter().any(|key| key.name == name)
}

fn from_file(path: &str, text: &str, keys: &[Key], layers: &mut Layers, problems: &mut Vec<Problem>) {
    let mut problem = |key: &str, message: String| {
        problems.push(Problem { key: key.to_owned(), place: path.to_owned(), message });
    };
    let mut found = Vec::new();
    match bounded::yaml::read(text) {
        Ok(Value::Null) => {}
        Ok(Value::Mapping(mapping)) => flatten("", mapping, &mut found),
        Ok(_) => problem("the file", "must be a list of `key: value` lines".to_owned()),
        Err(error) => problem("the file", error.to_string()),
    }
    for (name, value) in found {
        match given(value) {
            _ if !known(keys, &name) => problem(&name, unknown(&name)),
            Some(value) => {
                layers.insert(name, (value, Source::File { path: path.to_owned() }));
            }
            None => problem(&name, "must be one value or a list of values".to_owned()),
        }
    }
}

fn flatten(prefix: &str, mapping: serde_norway::Mapping, found: &mut Vec<(String, Value)>) {
    for (key, value) in mapping {
        let key = match given(key) {
            Some(Given::Text(key)) => format!("{prefix}{key}"),
            Some(Given::List(_)) | None => format!("{prefix}?"),
        };
        match value {
            Value::Mapping(below) if !below.is_empty() => flatten(&format!("{key}."), below, found),
            value => found.push((key, value)),
        }
    }
}

fn given(value: Value) -> Option<Given> {
    match value {
        Value::Bool(value) => Some(Given::Text(value.to_string())),
        Value::Number(value) => Some(Given::Text(value.to_string())),
        Value::String(value) => Some(Given::Text(value)),
        Value::Sequence(values) => {
            let texts = values.into_iter().map(|value| match given(value) {
                Some(Given::Text(text)) => Some(text),
                Some(Given::List(_)) | None => None,
            });
            texts.collect::<Option<_>>().map(Given::List)
        }
        Value::Null | Value::Mapping(_) | Value::Tagged(_) => None,
    }
}

fn from_environment(env: &BTreeMap<String, String>, keys: &[Key], layers: &mut Layers, problems: &mut Vec<Problem>) {
    for key in keys {
        // Compose files and unit files write an empty variable for one that is not set.
        let mut set = key
            .variables
            .iter()
            .filter_map(|name| env.get(name).filter(|value| !value.is_empty()).map(|value| (name, value)));
        let Some((variable, value)) = set.next() else { continue };
        if keys::is_of_others(variable) && layers.contains_key(&key.name) {
            continue;
        }
        if let Some((other, _)) = set.find(|(name, other)| *other != value && !keys::is_of_others(name)) {
            let message = format!("{variable} has another value; set only one of them");
            problems.push(Problem { key: key.name.clone(), place: other.clone(), message });
        }
        let source = Source::Environment { variable: variable.clone() };
        layers.insert(key.name.clone(), (Given::Text(value.clone()), source));
    }
    for variable in env.keys().filter(|variable| variable.starts_with("SKILL_RUNNER_")) {
        if !keys.iter().any(|key| key.variables.contains(variable)) {
            let place = "environment".to_owned();
            problems.push(Problem { key: variable.clone(), place, message: unknown_variable(variable) });
        }
    }
}
