//! The models of an engine: told by the CLI where it can tell, else from the snapshot that fits its version.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::bounded::{self, NotRun, Output};
use super::catalog::{self, Entry, Model, Origin, Snapshot, SnapshotRefused};
use super::find::Found;
use super::version::{self, lock, quiet_env};
use super::{InstalledEngines, scratch};
use crate::engine::Adapter;

/// How long a CLI may take to list its models; it takes 7 s on a small machine.
const LIMIT: Duration = Duration::from_secs(30);
/// How long its list is believed.
const LIST_HOLDS: Duration = Duration::from_secs(300);

/// Where a list of models comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListSource {
    /// The CLI was asked.
    Cli,
    /// A snapshot.
    Snapshot,
    /// Nobody knows.
    None,
}

/// The models of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Models {
    /// The engine.
    pub engine: String,
    /// The CLI's version, where there is one.
    pub cli_version_detected: Option<String>,
    /// Who says so.
    pub source: ListSource,
    /// The version the snapshot was made of.
    pub snapshot_version: Option<String>,
    /// Why this is not the exact list.
    pub fallback_reason: Option<String>,
    /// The list.
    pub models: Vec<Model>,
}

/// The snapshots of an engine, and which one counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// The engine.
    pub engine: String,
    /// The CLI's version, where there is one.
    pub cli_version_detected: Option<String>,
    /// All there are, oldest version first.
    pub snapshots: Vec<ManifestEntry>,
    /// The one that fits best.
    pub snapshot_version: Option<String>,
    /// Why it is not an exact fit.
    pub fallback_reason: Option<String>,
}

/// One snapshot of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManifestEntry {
    /// The version it was made of.
    pub cli_version: String,
    /// Where it comes from.
    pub origin: Origin,
    /// How many models it lists.
    pub models: usize,
}

/// What a CLI listed, and when.
pub(super) struct Listed {
    since: Instant,
    program: String,
    answer: Result<Vec<Model>, String>,
}

impl InstalledEngines {
    /// The models of an engine.
    pub fn models(&self, adapter: &Adapter) -> Models {
        let found = self.find(adapter).ok();
        let detected = found.as_ref().and_then(Found::known_version);
        let listed = found.filter(|_| can_list(adapter)).map(|found| self.listed(adapter, &found));
        let refusal = match listed {
            Some(Ok(models)) => {
                return Models {
                    engine: adapter.name.to_owned(),
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
        let all = catalog::snapshots(adapter.name, &self.snapshots_folder(adapter));
        let chosen = catalog::choose(&all, detected.as_deref());
        let (snapshot, reason) = chosen.map_or((None, None), |(snapshot, reason)| (Some(snapshot), reason));
        let nothing = || snapshot.is_none().then(|| "no snapshot of its models is known".to_owned());
        Models {
            engine: adapter.name.to_owned(),
            cli_version_detected: detected,
            source: if snapshot.is_some() { ListSource::Snapshot } else { ListSource::None },
            snapshot_version: snapshot.map(|snapshot| snapshot.cli_version.clone()),
            fallback_reason: refusal.or(reason).or_else(nothing),
            models: snapshot.map(|snapshot| catalog::models(adapter.name, &snapshot.models)).unwrap_or_default(),
        }
    }

    /// The snapshots of an engine.
    pub fn manifest(&self, adapter: &Adapter) -> Manifest {
        let detected = self.find(adapter).ok().and_then(|found| found.known_version());
        let all = catalog::snapshots(adapter.name, &self.snapshots_folder(adapter));
        let chosen = catalog::choose(&all, detected.as_deref());
        Manifest {
            engine: adapter.name.to_owned(),
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

    /// Keeps a snapshot of an engine's models, by default for the version that is installed.
    pub fn add_snapshot(
        &self,
        adapter: &Adapter,
        cli_version: Option<String>,
        models: Vec<Entry>,
    ) -> Result<Manifest, SnapshotRefused> {
        let detected = || self.find(adapter).ok().and_then(|found| found.known_version());
        let Some(cli_version) = cli_version.or_else(detected) else {
            let message = format!("name the version: {} is not installed here", adapter.name);
            return Err(SnapshotRefused::Invalid { path: "/cli_version".to_owned(), message });
        };
        catalog::add(adapter.name, &self.snapshots_folder(adapter), &Snapshot { cli_version, models })?;
        Ok(self.manifest(adapter))
    }

    fn snapshots_folder(&self, adapter: &Adapter) -> std::path::PathBuf {
        self.0.folder.join("models").join(adapter.name)
    }

    /// What the CLI lists. It takes seconds, so the answer holds for a while.
    fn listed(&self, adapter: &Adapter, found: &Found) -> Result<Vec<Model>, String> {
        let program = version::identity(&found.program);
        let mut kept = lock(&self.0.listed);
        if let Some(listed) = kept.get(adapter.name)
            && listed.program == program
            && listed.since.elapsed() < LIST_HOLDS
        {
            return listed.answer.clone();
        }
        let answer = self.list(adapter, found);
        kept.insert(adapter.name, Listed { since: Instant::now(), program, answer: answer.clone() });
        answer
    }

    fn list(&self, adapter: &Adapter, found: &Found) -> Result<Vec<Model>, String> {
        let home = self.home(adapter);
        fs::create_dir_all(&home).map_err(|error| format!("make {}: {error}", home.display()))?;
        let ran = scratch::with(&self.0.folder, |scratch| self.ask(adapter, found, &home, scratch));
        let output = ran.unwrap_or_else(|error| Err(NotRun::Start(error)));
        let output = output.map_err(|error| format!("{} models {error}", adapter.name))?;
        if !output.status.success() {
            return Err(format!("{} models failed ({})", adapter.name, output.status));
        }
        let models = catalog::models(adapter.name, &entries(&output.stdout));
        if models.is_empty() { Err(format!("{} models lists none", adapter.name)) } else { Ok(models) }
    }

    /// In the engine's own home and with the variables it may have: which models there are depends on the log-ins.
    fn ask(&self, adapter: &Adapter, found: &Found, home: &Path, scratch: &Path) -> Result<Output, NotRun> {
        let below = |folder: &str| home.join(folder).to_string_lossy().into_owned();
        let mut env = quiet_env(&found.path, scratch);
        env.retain(|(name, _)| *name != "HOME");
        env.extend([
            ("HOME", home.to_string_lossy().into_owned()),
            ("XDG_DATA_HOME", below("data")),
            ("XDG_CONFIG_HOME", below("config")),
            ("XDG_STATE_HOME", below("state")),
            ("XDG_CACHE_HOME", below("cache")),
        ]);
        let passed = self.engine(adapter).map(|engine| engine.env_pass.as_slice()).unwrap_or_default();
        for name in passed.iter().filter(|name| !env.iter().any(|(set, _)| set == name)).collect::<Vec<_>>() {
            if let Some(value) = self.0.env.get(name) {
                env.push((name, value.clone()));
            }
        }
        bounded::run(&found.program, &["models"], &env, scratch, LIMIT)
    }
}

/// The one CLI that lists its models without a log-in and without a call.
fn can_list(adapter: &Adapter) -> bool {
    adapter.name == "opencode"
}

/// Lines such as `provider/model`; anything else is a remark.
fn entries(output: &str) -> Vec<Entry> {
    let is_model = |line: &&str| {
        let plain = |character: char| character.is_ascii_graphic();
        line.chars().all(plain) && line.split_once('/').is_some_and(|(one, two)| !one.is_empty() && !two.is_empty())
    };
    let lines = output.lines().map(str::trim).filter(is_model);
    lines.map(|line| Entry { id: line.to_owned(), ..Entry::default() }).collect()
}
