//! The agent CLIs on this machine as one shared value.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use super::list_cache::Listed;
use super::program::{self, Found, NotInstalled};
use super::version::Versions;
use crate::domain::engine::Engine;
use crate::engine::Adapter;
use crate::settings::{EngineSettings, Settings};

/// Where programs are searched when the service has no PATH.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The agent CLIs of this machine; clones share their state. Every call blocks.
#[derive(Clone)]
pub struct InstalledEngines(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    engines: BTreeMap<Engine, EngineSettings>,
    /// The folder of managed programs.
    pub(crate) npm_prefix: PathBuf,
    /// The folder of the engines' homes.
    agent_home: PathBuf,
    /// The folder for versions, snapshots and upgrades.
    pub(crate) folder: PathBuf,
    /// The environment of the service. It holds secrets: only names are ever shown or compared.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) versions: Versions,
    pub(crate) listed: Mutex<HashMap<Engine, Listed>>,
    /// How many upgrades wait or run.
    pub(crate) upgrading: AtomicUsize,
}

impl InstalledEngines {
    /// The CLIs as this process sees them.
    pub(crate) fn new(settings: &Settings) -> Self {
        let texts =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::with_env(settings, texts.collect())
    }

    /// The CLIs as a process with this environment would see them.
    pub fn with_env(settings: &Settings, env: BTreeMap<String, String>) -> Self {
        let folder = settings.paths.data_dir.join("engines");
        Self(Arc::new(Shared {
            engines: settings.engines.clone(),
            npm_prefix: settings.paths.npm_prefix.clone(),
            agent_home: settings.paths.agent_home.clone(),
            env,
            versions: Versions::new(folder.clone(), Engine::AGENTS.iter().copied()),
            folder,
            listed: Mutex::default(),
            upgrading: AtomicUsize::new(0),
        }))
    }

    /// The program of an engine with its version. A program that has not changed since it was last asked is not started
    /// again.
    pub fn find(&self, adapter: &Adapter) -> Result<Found, NotInstalled> {
        let located = program::locate(&self.place(adapter))?;
        let version = self.0.versions.of(adapter, &located.program, &located.path);
        let version = version.map_err(|reason| NotInstalled::unusable(adapter, &located, &reason))?;
        Ok(Found { program: located.program, version, path: located.path, source: located.source })
    }

    /// The folder that holds an engine's login and sessions.
    pub(crate) fn home(&self, adapter: &Adapter) -> PathBuf {
        self.0.agent_home.join(adapter.name())
    }

    pub(crate) fn place<'a>(&'a self, adapter: &'a Adapter) -> program::Place<'a> {
        program::Place {
            adapter,
            command: self.settings(adapter).and_then(|engine| engine.command.as_deref()),
            npm_prefix: &self.0.npm_prefix,
            path: self.path(),
        }
    }

    pub(crate) fn settings(&self, adapter: &Adapter) -> Option<&EngineSettings> {
        self.0.engines.get(&adapter.engine)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.env.get("PATH").map_or(USUAL_PATH, String::as_str)
    }
}
