//! What the command line asks for, as a request for a run.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::bounded;
use crate::cli::failure::Failure;
use crate::cli::run::args::Args;
use crate::cli::run::key_value::KeyValue;
use crate::domain::ids::RunId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SkillPlace {
    Installed(String),
    Folder(PathBuf),
}

/// What is asked for.
pub(crate) enum Asked {
    New(Wanted),
    /// What an earlier run was asked for, with what a merge patch changes.
    Again {
        run: RunId,
        skill: SkillPlace,
        patch: Map<String, Value>,
    },
}

impl Asked {
    pub(crate) fn skill(&self) -> &SkillPlace {
        match self {
            Self::New(wanted) => &wanted.skill,
            Self::Again { skill, .. } => skill,
        }
    }
}

/// A run to be made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) skill: SkillPlace,
    /// Files by input key.
    pub(crate) files: Vec<(String, PathBuf)>,
    /// The rest of the request, without the skill's id.
    body: Map<String, Value>,
}

impl Wanted {
    /// What the command line asks for.
    pub(crate) fn of(args: Args) -> Result<Self, Failure> {
        let files: Vec<(String, PathBuf)> =
            distinct("--file", args.file)?.into_iter().map(|pair| (pair.key, pair.value.into())).collect();
        let mode = if args.interactive { "interactive" } else { "auto" };
        let mut options = Map::from_iter([("execution_mode".to_owned(), json!(mode))]);
        for (key, value) in [("debug", args.debug), ("no_cache", args.no_cache)] {
            if value {
                options.insert(key.to_owned(), json!(true));
            }
        }
        if let Some(seconds) = args.timeout {
            options.insert("hard_timeout_seconds".to_owned(), json!(seconds));
        }
        let mut body = Map::from_iter([
            ("input".to_owned(), values("--input", args.input)?),
            ("parameter".to_owned(), values("--param", args.param)?),
            ("runtime_options".to_owned(), Value::Object(options)),
            // Without files the run starts at once and fails with the names of those it misses.
            ("await_upload".to_owned(), json!(!files.is_empty())),
        ]);
        if !args.label.is_empty() {
            let labels = distinct("--label", args.label)?.into_iter().map(|pair| (pair.key, json!(pair.value)));
            body.insert("labels".to_owned(), Value::Object(labels.collect()));
        }
        if let Some(metadata) = args.metadata {
            let object: Map<String, Value> = bounded::json::from_str(&metadata)
                .map_err(|error| Failure::Usage(format!("--metadata must be a JSON object: {error}")))?;
            body.insert("metadata".to_owned(), Value::Object(object));
        }
        for (key, value) in [("engine", args.engine), ("model", args.model)] {
            if let Some(value) = value {
                body.insert(key.to_owned(), json!(value));
            }
        }
        Ok(Self { skill: place(args.skill), files, body })
    }

    /// The body of the request, for the skill of this id.
    pub(crate) fn body(&self, skill_id: &str) -> Value {
        let mut body = self.body.clone();
        body.insert("skill_id".to_owned(), json!(skill_id));
        Value::Object(body)
    }
}

/// An id has neither a `/` nor a dot; everything else is a path.
fn place(skill: String) -> SkillPlace {
    if skill.contains(['/', '.']) { SkillPlace::Folder(skill.into()) } else { SkillPlace::Installed(skill) }
}

pub(crate) fn values(flag: &str, pairs: Vec<KeyValue>) -> Result<Value, Failure> {
    let pairs = distinct(flag, pairs)?.into_iter();
    Ok(Value::Object(pairs.map(|pair| (pair.key, value(pair.value))).collect()))
}

/// JSON where it is JSON, else text.
fn value(text: String) -> Value {
    bounded::json::from_str(&text).unwrap_or(Value::String(text))
}

fn distinct(flag: &str, pairs: Vec<KeyValue>) -> Result<Vec<KeyValue>, Failure> {
    for (index, pair) in pairs.iter().enumerate() {
        if pairs[..index].iter().any(|earlier| earlier.key == pair.key) {
            return Err(Failure::Usage(format!("{flag} {}: this key is given twice", pair.key)));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(texts: &[&str]) -> Vec<KeyValue> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn values_are_json_where_they_are_json() {
        let found = values("--input", pairs(&["a=3", "b=three", r#"c="3""#, "d=[1,2]", "e=", "f=x=y", "g=null"]));
        let expected = json!({"a": 3, "b": "three", "c": "3", "d": [1, 2], "e": "", "f": "x=y", "g": null});
        assert_eq!(found.map_err(|_| ()), Ok(expected));
    }

    #[test]
    fn a_key_is_given_once_and_never_empty() {
        assert!(matches!(values("--input", pairs(&["a=1", "a=2"])), Err(Failure::Usage(_))));
        assert_eq!("=x".parse::<KeyValue>(), Err("\"=x\" is not KEY=VALUE".to_owned()));
        assert_eq!("x".parse::<KeyValue>(), Err("\"x\" is not KEY=VALUE".to_owned()));
    }

    #[test]
    fn a_path_is_told_from_an_id() {
        assert_eq!(place("pdf-tools".into()), SkillPlace::Installed("pdf-tools".into()));
        for folder in ["./pdf-tools", "pdf-tools/", ".", "../x", "/skills/x"] {
            assert_eq!(place(folder.into()), SkillPlace::Folder(folder.into()));
        }
    }
}
