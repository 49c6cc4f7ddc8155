//! Which models an engine knows: a snapshot for each version of its CLI, those of the program and those added here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::scratch;

/// Snapshots that come with the program, by engine.
const EMBEDDED: [(&str, &str); 5] = [
    ("codex", include_str!("models/codex-0.166.0.json")),
    ("gemini", include_str!("models/gemini-0.61.0.json")),
    ("opencode", include_str!("models/opencode-1.18.33.json")),
    ("claude", include_str!("models/claude-2.1.325.json")),
    ("qwen", include_str!("models/qwen-0.24.4.json")),
];

/// Most models of a snapshot.
const MODELS_MAX: usize = 2000;
/// Most snapshots added for one engine.
const SNAPSHOTS_MAX: usize = 200;

/// The models of one version of a CLI, as they are written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The CLI's version.
    pub cli_version: String,
    /// Its models.
    pub models: Vec<Entry>,
}

/// A model as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// As the CLI names it.
    pub id: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Efforts it can be asked for, where the engine's models are `name@effort`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub efforts: Vec<String>,
    /// Whether it goes away.
    #[serde(default)]
    pub deprecated: bool,
    /// Anything else worth knowing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// A model as it can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Model {
    /// What to put into `model` of a request.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// Whose it is, where the name says it.
    pub provider: Option<String>,
    /// How hard it thinks, where the name says it.
    pub effort: Option<String>,
    /// Whether it goes away.
    pub deprecated: bool,
    /// Anything else worth knowing.
    pub notes: Option<String>,
}

/// Where a snapshot comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It came with the program.
    Embedded,
    /// It was added here.
    Added,
}

/// A snapshot that cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotRefused {
    /// It is not right.
    #[error("{path}: {message}")]
    Invalid {
        /// Where, as a JSON pointer.
        path: String,
        /// What.
        message: String,
    },
    /// It could not be kept.
    #[error("keep the snapshot {}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// All snapshots of one engine, oldest version first.
pub(super) fn snapshots(engine: &str, added_in: &Path) -> Vec<(Origin, Snapshot)> {
    let mut found = BTreeMap::new();
    for (_, text) in EMBEDDED.iter().filter(|(name, _)| *name == engine) {
        if let Ok(snapshot) = serde_json::from_str::<Snapshot>(text) {
            found.insert(rank(&snapshot.cli_version), (Origin::Embedded, snapshot));
        }
    }
    // Later, so that one added for the same version takes the place of the embedded one.
    for path in files(added_in) {
        match read(engine, &path) {
            Ok(snapshot) => {
                found.insert(rank(&snapshot.cli_version), (Origin::Added, snapshot));
            }
            Err(error) => warn!(path = %path.display(), error, "a snapshot of models cannot be used"),
        }
    }
    found.into_values().collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    files.sort();
    files
}

fn read(engine: &str, path: &Path) -> Result<Snapshot, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let snapshot: Snapshot = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    check(engine, &snapshot).map_err(|refused| refused.to_string())?;
    Ok(snapshot)
}

/// Keeps a snapshot; one of the same version is replaced.
pub(super) fn add(engine: &str, added_in: &Path, snapshot: &Snapshot) -> Result<(), SnapshotRefused> {
    check(engine, snapshot)?;
    let path = added_in.join(format!("{}.json", snapshot.cli_version));
    let known = files(added_in);
    if known.len() >= SNAPSHOTS_MAX && !known.contains(&path) {
        return Err(invalid("/cli_version", format!("there are {SNAPSHOTS_MAX} snapshots of {engine} already")));
    }
    let kept = serde_json::to_vec_pretty(snapshot).map_err(io::Error::from);
    kept.and_then(|bytes| scratch::write_whole(&path, &bytes)).map_err(|source| SnapshotRefused::Io { path, source })
}

fn invalid(path: impl Into<String>, message: impl Into<String>) -> SnapshotRefused {
    SnapshotRefused::Invalid { path: path.into(), message: message.into() }
}

fn check(engine: &str, snapshot: &Snapshot) -> Result<(), SnapshotRefused> {
    let version = &snapshot.cli_version;
    // It becomes the name of a file.
    let plain = version.chars().all(|character| character.is_ascii_alphanumeric() || ".-+".contains(character));
    if !version.starts_with(|first: char| first.is_ascii_digit()) || !plain || version.len() > 64 {
        return Err(invalid("/cli_version", format!("must be a version such as 1.2.3, not {version:?}")));
    }
    if snapshot.models.is_empty() || snapshot.models.len() > MODELS_MAX {
        return Err(invalid("/models", format!("must be 1 to {MODELS_MAX} models")));
    }
    let mut ids = BTreeSet::new();
    for (at, entry) in snapshot.models.iter().enumerate() {
        check_entry(engine, entry).map_err(|message| invalid(format!("/models/{at}/id"), message))?;
        for model in models(engine, std::slice::from_ref(entry)) {
            if !ids.insert(model.id.clone()) {
                return Err(invalid(format!("/models/{at}/id"), format!("{:?} is listed twice", model.id)));
            }
        }
    }
    Ok(())
}

fn check_entry(engine: &str, entry: &Entry) -> Result<(), String> {
    let plain = |text: &str| {
        let bad = |character: char| character.is_control() || character.is_whitespace();
        !text.is_empty() && text.len() <= 200 && !text.starts_with('-') && !text.chars().any(bad)
    };
    if !plain(&entry.id) {
        return Err(format!("{:?} cannot be the name of a model", entry.id));
    }
    let provided = entry.id.split_once('/').is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty());
    match engine {
        "opencode" if !provided => Err(format!("must be provider/model, not {:?}", entry.id)),
        "codex" if entry.efforts.is_empty() && !entry.id.contains('@') => {
            Err(format!("name the efforts of {:?}, or write it as name@effort", entry.id))
        }
        "codex" if !entry.efforts.is_empty() && entry.id.contains('@') => {
            Err(format!("{:?} names its effort already", entry.id))
        }
        _ if !entry.efforts.iter().all(|effort| plain(effort)) => Err("an effort must be one word".to_owned()),
        _ if engine != "codex" && !entry.efforts.is_empty() => Err(format!("the models of {engine} have no efforts")),
        _ => Ok(()),
    }
}

/// Models as they can be asked for.
pub(super) fn models(engine: &str, entries: &[Entry]) -> Vec<Model> {
    entries.iter().flat_map(|entry| variants(engine, entry)).collect()
}

fn variants(engine: &str, entry: &Entry) -> Vec<Model> {
    let shown = entry.display_name.clone().unwrap_or_else(|| entry.id.clone());
    let plain = Model {
        id: entry.id.clone(),
        display_name: shown.clone(),
        provider: None,
        effort: None,
        deprecated: entry.deprecated,
        notes: entry.notes.clone(),
    };
    if engine == "opencode" {
        let provider = entry.id.split_once('/').map(|(provider, _)| provider.to_owned());
        return vec![Model { provider, ..plain }];
    }
    if entry.efforts.is_empty() {
        let effort = entry.id.split_once('@').filter(|_| engine == "codex").map(|(_, effort)| effort.to_owned());
        return vec![Model { effort, ..plain }];
    }
    let with = |effort: &String| Model {
        id: format!("{}@{effort}", entry.id),
        display_name: format!("{shown} ({effort})"),
        effort: Some(effort.clone()),
        ..plain.clone()
    };
    entry.efforts.iter().map(with).collect()
}

/// The snapshot that fits a version best, and why it is not an exact fit.
pub(super) fn choose<'a>(
    all: &'a [(Origin, Snapshot)],
    detected: Option<&str>,
) -> Option<(&'a Snapshot, Option<String>)> {
    let newest = &all.last()?.1;
    let Some(detected) = detected else {
        return Some((newest, Some("the CLI's version is not known; these are the newest".to_owned())));
    };
    let wanted = rank(detected);
    if let Some((_, exact)) = all.iter().find(|(_, snapshot)| rank(&snapshot.cli_version) == wanted) {
        return Some((exact, None));
    }
    let older = all.iter().rev().find(|(_, snapshot)| rank(&snapshot.cli_version) < wanted);
    let nearest = older.or(all.first()).map(|(_, snapshot)| snapshot)?;
    let reason = format!("there is no snapshot for {detected}; these are of {}", nearest.cli_version);
    Some((nearest, Some(reason)))
}

/// Orders versions by their numbers, a release behind its candidates, and what is equal by its text.
fn rank(version: &str) -> (Vec<u64>, bool, String) {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let numbers = core.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    (numbers, !version.contains('-'), version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(cli_version: &str, ids: &[&str]) -> Snapshot {
        let models = ids.iter().map(|id| Entry { id: (*id).to_owned(), ..Entry::default() }).collect();
        Snapshot { cli_version: cli_version.to_owned(), models }
    }

    #[test]
    fn every_embedded_snapshot_is_valid_and_of_the_version_its_adapter_was_measured_with() {
        for (engine, text) in EMBEDDED {
            let snapshot: Snapshot = serde_json::from_str(text).unwrap();
            check(engine, &snapshot).unwrap();
            let install = crate::engine::adapter(engine).unwrap().install.unwrap();
            assert_eq!(snapshot.cli_version, install.version, "{engine}");
        }
    }

    #[test]
    fn the_nearest_older_snapshot_is_chosen_and_said_to_be_older() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["1.2.0", "1.10.0", "1.10.1-rc.1", "2.0.0"] {
            add("gemini", folder.path(), &snapshot(version, &["a"])).unwrap();
        }
        let mut all = snapshots("gemini", folder.path());
        all.retain(|(origin, _)| *origin == Origin::Added);
        let chosen = |detected| {
            let (snapshot, reason) = choose(&all, detected).unwrap();
            (snapshot.cli_version.clone(), reason.is_some())
        };
        assert_eq!(chosen(Some("1.10.0")), ("1.10.0".to_owned(), false));
        assert_eq!(chosen(Some("1.9.9")), ("1.2.0".to_owned(), true));
        assert_eq!(chosen(Some("1.11.0")), ("1.10.1-rc.1".to_owned(), true));
        assert_eq!(chosen(Some("0.1.0")), ("1.2.0".to_owned(), true));
        assert_eq!(chosen(Some("9")), ("2.0.0".to_owned(), true));
        assert_eq!(chosen(None), ("2.0.0".to_owned(), true));
        assert_eq!(choose(&[], Some("1.0.0")), None);
    }

    #[test]
    fn an_added_snapshot_takes_the_place_of_the_embedded_one_and_a_broken_file_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        add("gemini", folder.path(), &snapshot("0.61.0", &["mine"])).unwrap();
        fs::write(folder.path().join("9.9.9.json"), "{").unwrap();
        assert_eq!(snapshots("gemini", folder.path()), [(Origin::Added, snapshot("0.61.0", &["mine"]))]);
    }

    #[test]
    fn what_is_wrong_with_a_snapshot_is_said_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        for (engine, cli_version, ids, place) in [
            ("gemini", "../../x", &["a"][..], "/cli_version"),
            ("gemini", "", &["a"], "/cli_version"),
            ("gemini", "1.0.0", &[], "/models"),
            ("gemini", "1.0.0", &["a", "a"], "/models/1/id"),
            ("gemini", "1.0.0", &["--yolo"], "/models/0/id"),
            ("gemini", "1.0.0", &["a b"], "/models/0/id"),
            ("opencode", "1.0.0", &["a/b", "c"], "/models/1/id"),
            ("codex", "1.0.0", &["a@low", "b"], "/models/1/id"),
        ] {
            let refused = add(engine, folder.path(), &snapshot(cli_version, ids)).unwrap_err();
            let SnapshotRefused::Invalid { path, .. } = refused else { panic!("{refused}") };
            assert_eq!(path, place, "{cli_version} {ids:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn codex_models_are_written_with_their_effort_and_those_of_opencode_have_a_provider() {
        let entry = Entry { efforts: vec!["low".into(), "high".into()], id: "m".into(), ..Entry::default() };
        let ids = |engine, entry| models(engine, &[entry]).into_iter().map(|model| model.id).collect::<Vec<_>>();
        assert_eq!(ids("codex", entry), ["m@low", "m@high"]);
        let entry = Entry { id: "p/m/x".into(), ..Entry::default() };
        assert_eq!(models("opencode", &[entry])[0].provider.as_deref(), Some("p"));
    }
}
