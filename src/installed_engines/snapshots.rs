//! Snapshots: the models of an engine for each version of its CLI, embedded in the program or added by an operator.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::model_names::{Entry, check_entry, models};
use crate::bounded;
use crate::engine::Adapter;
use crate::files::{self, create_parent, write_durably};

/// The most models a snapshot can have.
const MODELS_MAX: usize = 2000;
/// The most snapshots that can be added for one engine.
const SNAPSHOTS_MAX: usize = 200;

/// The models of one version of a CLI, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub(crate) cli_version: String,
    pub(crate) models: Vec<Entry>,
}

/// Where a snapshot comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// It is part of the program.
    Embedded,
    /// An operator added it.
    Added,
}

/// Why a snapshot was not added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotRefused {
    /// It breaks a rule.
    #[error("{path}: {message}")]
    Invalid {
        /// The place, as a JSON pointer.
        path: String,
        /// The rule it breaks.
        message: String,
    },
    /// It could not be written.
    #[error("write the snapshot {}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// All snapshots of one engine, oldest version first.
pub(crate) fn snapshots(adapter: &Adapter, added_in: &Path) -> Vec<(Origin, Snapshot)> {
    let mut found = BTreeMap::new();
    if let Some(Ok(snapshot)) = adapter.models.snapshot.map(bounded::json::from_str::<Snapshot>) {
        found.insert(rank(&snapshot.cli_version), (Origin::Embedded, snapshot));
    }
    // Inserted later, so that one added for the same version replaces the embedded one.
    for path in files(added_in) {
        match read(adapter, &path) {
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

fn read(adapter: &Adapter, path: &Path) -> Result<Snapshot, String> {
    let bytes = files::read_followed(path).map_err(|error| error.to_string())?;
    let snapshot: Snapshot = bounded::json::from_slice(&bytes).map_err(|error| error.to_string())?;
    check(adapter, &snapshot).map_err(|refused| refused.to_string())?;
    Ok(snapshot)
}

/// Adds a snapshot; one of the same version is replaced.
pub(crate) fn add(adapter: &Adapter, added_in: &Path, snapshot: &Snapshot) -> Result<(), SnapshotRefused> {
    check(adapter, snapshot)?;
    let path = added_in.join(format!("{}.json", snapshot.cli_version));
    let known = files(added_in);
    if known.len() >= SNAPSHOTS_MAX && !known.contains(&path) {
        return Err(invalid(
            "/cli_version",
            format!("there are already {SNAPSHOTS_MAX} snapshots of {}", adapter.name()),
        ));
    }
    let encoded = serde_json::to_vec_pretty(snapshot).map_err(io::Error::from);
    let written = encoded.and_then(|bytes| {
        create_parent(&path)?;
        Ok(write_durably(&path, &bytes)?)
    });
    written.map_err(|source| SnapshotRefused::Io { path, source })
}

fn invalid(path: impl Into<String>, message: impl Into<String>) -> SnapshotRefused {
    SnapshotRefused::Invalid { path: path.into(), message: message.into() }
}

fn check(adapter: &Adapter, snapshot: &Snapshot) -> Result<(), SnapshotRefused> {
    let version = &snapshot.cli_version;
    // The version becomes the name of a file.
    let plain = version.chars().all(|character| character.is_ascii_alphanumeric() || ".-+".contains(character));
    if !version.starts_with(|first: char| first.is_ascii_digit()) || !plain || version.len() > 64 {
        return Err(invalid("/cli_version", format!("must be a version such as 1.2.3, not {version:?}")));
    }
    if snapshot.models.is_empty() || snapshot.models.len() > MODELS_MAX {
        return Err(invalid("/models", format!("must be 1 to {MODELS_MAX} models")));
    }
    let mut ids = BTreeSet::new();
    for (at, entry) in snapshot.models.iter().enumerate() {
        check_entry(adapter, entry).map_err(|message| invalid(format!("/models/{at}/id"), message))?;
        for model in models(adapter, std::slice::from_ref(entry)) {
            if !ids.insert(model.id.clone()) {
                return Err(invalid(format!("/models/{at}/id"), format!("{:?} is listed twice", model.id)));
            }
        }
    }
    Ok(())
}

/// The snapshot that fits a version best, and why it is not an exact fit.
pub(crate) fn choose<'a>(
    all: &'a [(Origin, Snapshot)],
    detected: Option<&str>,
) -> Option<(&'a Snapshot, Option<String>)> {
    let newest = &all.last()?.1;
    let Some(detected) = detected else {
        return Some((
            newest,
            Some("the CLI's version is not known; these are the models of the newest snapshot".to_owned()),
        ));
    };
    let wanted = rank(detected);
    if let Some((_, exact)) = all.iter().find(|(_, snapshot)| rank(&snapshot.cli_version) == wanted) {
        return Some((exact, None));
    }
    let older = all.iter().rev().find(|(_, snapshot)| rank(&snapshot.cli_version) < wanted);
    let nearest = older.or(all.first()).map(|(_, snapshot)| snapshot)?;
    let reason = format!("there is no snapshot for {detected}; these are the models of {}", nearest.cli_version);
    Some((nearest, Some(reason)))
}

/// Orders versions by their numbers, a release after its candidates, and equal ones by their text.
fn rank(version: &str) -> (Vec<u64>, bool, String) {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let numbers = core.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    (numbers, !version.contains('-'), version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;

    fn adapter(name: &str) -> &'static Adapter {
        engine::adapter_named(name).unwrap()
    }

    fn snapshot(cli_version: &str, ids: &[&str]) -> Snapshot {
        let models = ids.iter().map(|id| Entry { id: (*id).to_owned(), ..Entry::default() }).collect();
        Snapshot { cli_version: cli_version.to_owned(), models }
    }

    #[test]
    fn every_embedded_snapshot_is_valid_and_of_the_version_its_adapter_was_measured_with() {
        for adapter in engine::adapters() {
            assert_eq!(adapter.models.snapshot.is_some(), adapter.install.is_some(), "{}", adapter.name());
            let Some(text) = adapter.models.snapshot else { continue };
            let snapshot: Snapshot = serde_json::from_str(text).unwrap();
            check(adapter, &snapshot).unwrap();
            assert_eq!(snapshot.cli_version, adapter.install.unwrap().version, "{}", adapter.name());
        }
    }

    #[test]
    fn the_nearest_older_snapshot_is_chosen_and_said_to_be_older() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["1.2.0", "1.10.0", "1.10.1-rc.1", "2.0.0"] {
            add(adapter("gemini"), folder.path(), &snapshot(version, &["a"])).unwrap();
        }
        let mut all = snapshots(adapter("gemini"), folder.path());
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
    fn an_added_snapshot_replaces_the_embedded_one_and_a_broken_file_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        add(adapter("gemini"), folder.path(), &snapshot("0.61.0", &["mine"])).unwrap();
        fs::write(folder.path().join("9.9.9.json"), "{").unwrap();
        assert_eq!(snapshots(adapter("gemini"), folder.path()), [(Origin::Added, snapshot("0.61.0", &["mine"]))]);
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
            let refused = add(adapter(engine), folder.path(), &snapshot(cli_version, ids)).unwrap_err();
            let SnapshotRefused::Invalid { path, .. } = refused else { panic!("{refused}") };
            assert_eq!(path, place, "{cli_version} {ids:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
