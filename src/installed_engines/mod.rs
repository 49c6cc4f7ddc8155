//! The agent CLIs on this machine: where they are, which version, whether they are logged in, how to install them.

mod bounded;
mod catalog;
mod find;
mod listing;
mod login;
mod scratch;
mod status;
mod tool;
mod upgrade;
mod upgrade_record;
mod version;

pub use catalog::{Entry, Model, Origin, Snapshot, SnapshotRefused};
pub use find::{Found, NotInstalled, Source};
pub use listing::{ListSource, Manifest, ManifestEntry, Models};
pub use status::Status;
pub use tool::tool_version;
pub use upgrade::UpgradeRefused;
pub use upgrade_record::{Upgrade, UpgradeResult, UpgradeStatus};

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use crate::engine::{ADAPTERS, Adapter};
use crate::settings::{self, Settings};
use version::Versions;

/// Where programs are looked for when the service has no PATH.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The CLIs of this machine; clones are the same. Every call blocks.
#[derive(Clone)]
pub struct InstalledEngines(Arc<Shared>);

struct Shared {
    engines: BTreeMap<String, settings::Engine>,
    /// Managed programs live below.
    npm_prefix: PathBuf,
    /// Each engine has its home below.
    agent_home: PathBuf,
    /// What is remembered of the CLIs.
    folder: PathBuf,
    /// The environment of the service. It holds secrets: nothing here is ever shown, and only names are compared.
    env: BTreeMap<String, String>,
    versions: Versions,
    listed: Mutex<HashMap<&'static str, listing::Listed>>,
    /// Upgrades that wait or run.
    upgrading: AtomicUsize,
}

impl InstalledEngines {
    /// The CLIs as this process sees them.
    pub fn new(settings: &Settings) -> Self {
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
            versions: Versions::new(folder.clone(), ADAPTERS.map(|adapter| adapter.name)),
            folder,
            listed: Mutex::default(),
            upgrading: AtomicUsize::new(0),
        }))
    }

    /// The program of an engine with its version. A program that was looked at before and has not changed is not
    /// started again.
    pub fn find(&self, adapter: &Adapter) -> Result<Found, NotInstalled> {
        let located = find::locate(&self.place(adapter))?;
        let version = self.0.versions.of(adapter.name, &located.program, &located.path);
        let version = version.map_err(|reason| NotInstalled::unusable(adapter, &located, &reason))?;
        Ok(Found { program: located.program, version, path: located.path, source: located.source })
    }

    /// The folder that holds an engine's log-in and sessions.
    pub fn home(&self, adapter: &Adapter) -> PathBuf {
        self.0.agent_home.join(adapter.name)
    }

    fn place<'a>(&'a self, adapter: &'a Adapter) -> find::Place<'a> {
        find::Place {
            adapter,
            command: self.engine(adapter).and_then(|engine| engine.command.as_deref()),
            npm_prefix: &self.0.npm_prefix,
            path: self.path(),
        }
    }

    fn engine(&self, adapter: &Adapter) -> Option<&settings::Engine> {
        self.0.engines.get(adapter.name)
    }

    fn path(&self) -> &str {
        self.0.env.get("PATH").map_or(USUAL_PATH, String::as_str)
    }
}
