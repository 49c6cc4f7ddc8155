//! The models of an engine: as a snapshot lists them, and as requests can name them.

use serde::{Deserialize, Serialize};

use crate::engine::{Adapter, ModelNames};

/// A model as a snapshot lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The CLI's name for it.
    pub(crate) id: String,
    /// A name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) display_name: Option<String>,
    /// The efforts it can be used with, where the engine's models are `name@effort`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) efforts: Vec<String>,
    /// Whether it will be removed.
    #[serde(default)]
    pub(crate) deprecated: bool,
    /// Anything else worth knowing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) notes: Option<String>,
}

/// A model as a request can name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Model {
    /// The value for `model` of a request.
    pub id: String,
    /// A name to show.
    pub(crate) display_name: String,
    /// Its provider, where the name has one.
    pub(crate) provider: Option<String>,
    /// Its effort, where the name has one.
    pub(crate) effort: Option<String>,
    /// Whether it will be removed.
    pub(crate) deprecated: bool,
    /// Anything else worth knowing.
    pub(crate) notes: Option<String>,
}

/// Checks the name and the efforts of a model.
pub(crate) fn check_entry(adapter: &Adapter, entry: &Entry) -> Result<(), String> {
    let plain = |text: &str| {
        let bad = |character: char| character.is_control() || character.is_whitespace();
        !text.is_empty() && text.len() <= 200 && !text.starts_with('-') && !text.chars().any(bad)
    };
    if !plain(&entry.id) {
        return Err(format!("{:?} cannot be the name of a model", entry.id));
    }
    let parts = entry.id.split_once('/');
    let has_provider = parts.is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty());
    let has_effort = entry.id.contains('@');
    match (adapter.models.names, entry.efforts.is_empty()) {
        (ModelNames::WithProvider, _) if !has_provider => Err(format!("must be provider/model, not {:?}", entry.id)),
        (ModelNames::WithEffort, true) if !has_effort => {
            Err(format!("list the efforts of {:?}, or write it as name@effort", entry.id))
        }
        (ModelNames::WithEffort, false) if has_effort => Err(format!("{:?} already has an effort", entry.id)),
        (ModelNames::WithEffort, false) if !entry.efforts.iter().all(|effort| plain(effort)) => {
            Err("an effort must be one word".to_owned())
        }
        (ModelNames::Plain | ModelNames::WithProvider, false) => {
            Err(format!("the models of {} have no efforts", adapter.name()))
        }
        (ModelNames::Plain | ModelNames::WithProvider, true) | (ModelNames::WithEffort, _) => Ok(()),
    }
}

/// The models as requests can name them.
pub(crate) fn models(adapter: &Adapter, entries: &[Entry]) -> Vec<Model> {
    entries.iter().flat_map(|entry| variants(adapter.models.names, entry)).collect()
}

fn variants(names: ModelNames, entry: &Entry) -> Vec<Model> {
    let shown = entry.display_name.clone().unwrap_or_else(|| entry.id.clone());
    let plain = Model {
        id: entry.id.clone(),
        display_name: shown.clone(),
        provider: None,
        effort: None,
        deprecated: entry.deprecated,
        notes: entry.notes.clone(),
    };
    match names {
        ModelNames::Plain => vec![plain],
        ModelNames::WithProvider => {
            let provider = entry.id.split_once('/').map(|(provider, _)| provider.to_owned());
            vec![Model { provider, ..plain }]
        }
        ModelNames::WithEffort if entry.efforts.is_empty() => {
            let effort = entry.id.split_once('@').map(|(_, effort)| effort.to_owned());
            vec![Model { effort, ..plain }]
        }
        ModelNames::WithEffort => {
            let with = |effort: &String| Model {
                id: format!("{}@{effort}", entry.id),
                display_name: format!("{shown} ({effort})"),
                effort: Some(effort.clone()),
                ..plain.clone()
            };
            entry.efforts.iter().map(with).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;

    fn adapter(name: &str) -> &'static Adapter {
        engine::adapter_named(name).unwrap()
    }

    #[test]
    fn codex_models_are_written_with_their_effort_and_those_of_opencode_have_a_provider() {
        let entry = Entry { efforts: vec!["low".into(), "high".into()], id: "m".into(), ..Entry::default() };
        let ids =
            |engine, entry| models(adapter(engine), &[entry]).into_iter().map(|model| model.id).collect::<Vec<_>>();
        assert_eq!(ids("codex", entry), ["m@low", "m@high"]);
        let entry = Entry { id: "p/m/x".into(), ..Entry::default() };
        assert_eq!(models(adapter("opencode"), &[entry])[0].provider.as_deref(), Some("p"));
    }
}
