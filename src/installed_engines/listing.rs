//! The models of an engine: as its CLI lists them where it can, else from the snapshot that fits its version.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::installed::InstalledEngines;
use super::list_cache::Listed;
use super::model_names::{self, Entry, Model};
use super::program::Found;
use super::snapshots::{self, Origin, Snapshot, SnapshotRefused};
use super::temporary_folder::with_temporary_folder;
use super::version::{self, lock, quiet_env};
use crate::domain::engine::Engine;
use crate::engine::{Adapter, ModelListing};
use crate::files::child::{self, NotRun, Output};

/// How long a CLI may take to list its models; it takes 7 s on a small machine.
const LIMIT: Duration = Duration::from_secs(30);
/// How long its list is kept.
const LIST_KEPT: Duration = Duration::from_secs(300);

/// Where a list of models comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListSource {
    /// The CLI listed them.
    Cli,
    Snapshot,
    /// There is no list.
    None,
}

/// The models of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Models {
    pub(crate) engine: String,
    /// The CLI's version, where there is one.
    pub(crate) cli_version_detected: Option<String>,
    /// Where the list comes from.
    pub source: ListSource,
    /// The CLI version of the snapshot.
    pub snapshot_version: Option<String>,
    /// Why this is not the exact list.
    pub fallback_reason: Option<String>,
    pub models: Vec<Model>,
}

/// The snapshots of an engine, and which one is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Manifest {
    pub(crate) engine: String,
    /// The CLI's version, where there is one.
    pub(crate) cli_version_detected: Option<String>,
    /// All snapshots, oldest version first.
    pub(crate) snapshots: Vec<ManifestEntry>,
    /// The one that fits best.
    pub(crate) snapshot_version: Option<String>,
    /// Why it is not an exact fit.
    pub(crate) fallback_reason: Option<String>,
}

/// One snapshot of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ManifestEntry {
    /// The CLI version it describes.
    pub(crate) cli_version: String,
    /// Where it comes from.
    pub(crate) origin: Origin,
    /// How many models it lists.
    pub(crate) models: usize,
}

impl Models {
    /// Scripts run without a model.
    pub(crate) fn of_scripts() -> Self {
        Self {
            engine: Engine::Script.to_string(),
            cli_version_detected: None,
            source: ListSource::None,
            snapshot_version: None,
            fallback_reason: Some("scripts run without a model".to_owned()),
            models: Vec::new(),
        }
    }
}

impl InstalledEngines {
    /// The models of an engine.
    pub fn models(&self, adapter: &Adapter) -> Models {
        let found = self.find(adapter).ok();
        let detected = found.as_ref().and_then(Found::known_version);
        let listing = found.as_ref().zip(adapter.models.listing);
        let listed = listing.map(|(found, listing)| self.listed(adapter, found, listing));
        let refusal = match listed {
            Some(Ok(models)) => {
                return Models {
                    engine: adapter.name().to_owned(),
                    cli_version_detected: detected,
                    source: ListSource::Cli,
                    snapshot_version: None,
                    fallback_reason: None,
                    models,
                };
            }
            Some(Err(reason)) => Some(reason),
            None => None,
        };
        let all = snapshots::snapshots(adapter, &self.snapshots_folder(adapter));
        let chosen = snapshots::choose(&all, detected.as_deref());
        let (snapshot, reason) = chosen.map_or((None, None), |(snapshot, reason)| (Some(snapshot), reason));
        let nothing = || snapshot.is_none().then(|| "there is no snapshot of its models".to_owned());
        Models {
            engine: adapter.name().to_owned(),
            cli_version_detected: detected,
            source: if snapshot.is_some() { ListSource::Snapshot } else { ListSource::None },
            snapshot_version: snapshot.map(|snapshot| snapshot.cli_version.clone()),
            fallback_reason: refusal.or(reason).or_else(nothing),
            models: snapshot.map(|snapshot| model_names::models(adapter, &snapshot.models)).unwrap_or_default(),
        }
    }

    /// Whether the snapshot for this version of the CLI lists a model; none where there is no snapshot.
    pub(crate) fn lists(&self, adapter: &Adapter, version: &str, model: &str) -> Option<bool> {
        let all = snapshots::snapshots(adapter, &self.snapshots_folder(adapter));
        let (snapshot, _) = snapshots::choose(&all, Some(version))?;
        let is_it = |listed: &Model| listed.id == model || listed.id.split('@').next() == Some(model);
        Some(model_names::models(adapter, &snapshot.models).iter().any(is_it))
    }

    /// The snapshots of an engine.
    pub(crate) fn manifest(&self, adapter: &Adapter) -> Manifest {
        let detected = self.find(adapter).ok().and_then(|found| found.known_version());
        let all = snapshots::snapshots(adapter, &self.snapshots_folder(adapter));
        let chosen = snapshots::choose(&all, detected.as_deref());
        Manifest {
            engine: adapter.name().to_owned(),
            snapshot_version: chosen.as_ref().map(|(snapshot, _)| snapshot.cli_version.clone()),
            fallback_reason: chosen.and_then(|(_, reason)| reason),
            cli_version_detected: detected,
            snapshots: all
                .into_iter()
                .map(|(origin, Snapshot { cli_version, models })| ManifestEntry {
                    cli_version,
                    origin,
                    models: models.len(),
                })
                .collect(),
        }
    }

    /// Adds a snapshot of an engine's models, by default for the installed version.
    pub(crate) fn add_snapshot(
        &self,
        adapter: &Adapter,
        cli_version: Option<String>,
        models: Vec<Entry>,
    ) -> Result<Manifest, SnapshotRefused> {
        let detected = || self.find(adapter).ok().and_then(|found| found.known_version());
        let Some(cli_version) = cli_version.or_else(detected) else {
            let message = format!("give the version: {} is not installed here", adapter.name());
            return Err(SnapshotRefused::Invalid { path: "/cli_version".to_owned(), message });
        };
        snapshots::add(adapter, &self.snapshots_folder(adapter), &Snapshot { cli_version, models })?;
        Ok(self.manifest(adapter))
    }

    fn snapshots_folder(&self, adapter: &Adapter) -> std::path::PathBuf {
        self.0.folder.join("models").join(adapter.name())
    }

    /// What the CLI lists. That takes seconds, so the answer is kept for a while.
    fn listed(&self, adapter: &Adapter, found: &Found, listing: ModelListing) -> Result<Vec<Model>, String> {
        let program = version::identity(&found.program);
        let mut kept = lock(&self.0.listed);
        if let Some(listed) = kept.get(&adapter.engine)
            && listed.program == program
            && listed.since.elapsed() < LIST_KEPT
        {
            return listed.answer.clone();
        }
        let answer = self.list(adapter, found, listing);
        kept.insert(adapter.engine, Listed { since: Instant::now(), program, answer: answer.clone() });
        answer
    }

    fn list(&self, adapter: &Adapter, found: &Found, listing: ModelListing) -> Result<Vec<Model>, String> {
        let command = format!("{} {}", adapter.name(), listing.arguments.join(" "));
        let home = self.home(adapter);
        fs::create_dir_all(&home).map_err(|error| format!("make {}: {error}", home.display()))?;
        let ran = with_temporary_folder(&self.0.folder, |folder| self.ask(adapter, found, listing, &home, folder));
        let output = ran.unwrap_or_else(|error| Err(NotRun::Start(error)));
        let output = output.map_err(|error| format!("{command} {error}"))?;
        if !output.status.success() {
            return Err(format!("{command} failed ({})", output.status));
        }
        let models = model_names::models(adapter, &entries(&output.stdout));
        if models.is_empty() { Err(format!("{command} printed no models")) } else { Ok(models) }
    }

    /// Runs the command in the engine's home with the variables passed through: the logins decide which models there are.
    fn ask(
        &self,
        adapter: &Adapter,
        found: &Found,
        listing: ModelListing,
        home: &Path,
        folder: &Path,
    ) -> Result<Output, NotRun> {
        let mut env = quiet_env(adapter, &found.path, folder);
        env.retain(|(name, _)| *name != "HOME");
        env.push(("HOME", home.to_string_lossy().into_owned()));
        env.extend((listing.home_variables)(home));
        let passed = self.settings(adapter).map(|settings| settings.env_pass.as_slice()).unwrap_or_default();
        for name in passed.iter().filter(|name| !env.iter().any(|(set, _)| set == name)).collect::<Vec<_>>() {
            if let Some(value) = self.0.env.get(name) {
                env.push((name, value.clone()));
            }
        }
        child::run(&found.program, listing.arguments, &env, folder, LIMIT)
    }
}

/// How many models are found in what a CLI prints. No name is more than a word.
#[cfg(any(test, fuzzing))]
pub(crate) fn foreign_models(output: &str) -> usize {
    let found = entries(output);
    assert!(found.iter().all(|entry| entry.id.bytes().all(|byte| byte.is_ascii_graphic())));
    found.len()
}

/// The lines of the form `provider/model`; others are remarks.
fn entries(output: &str) -> Vec<Entry> {
    let is_model = |line: &&str| {
        let plain = |character: char| character.is_ascii_graphic();
        line.chars().all(plain) && line.split_once('/').is_some_and(|(one, two)| !one.is_empty() && !two.is_empty())
    };
    let lines = output.lines().map(str::trim).filter(is_model);
    lines.map(|line| Entry { id: line.to_owned(), ..Entry::default() }).collect()
}
