//! What the orchestrator finds outside: time, threads and engines. Each can be simulated.

pub(crate) mod blocking;
pub(crate) mod clock;
pub(crate) mod isolation;
pub(crate) mod unbroken;

use std::path::PathBuf;
use std::sync::Arc;

use crate::blobs::Blobs;
use crate::fcmp::Signer;
use crate::installed_engines::InstalledEngines;
use crate::renderer::{ChildRenderer, Renderer};
use tracing::{debug, warn};

use crate::settings::{Groups, Sandbox, Settings};
use crate::store::{Cluster, NodeInfo};
use crate::supervisor::{self, Confinement, ControlGroups, ProcessSpawner, Spawner};

pub use blocking::{Blocking, FileSteps};
pub use clock::{Clock, WallClock};
pub(crate) use unbroken::unbroken;

/// Everything outside that the orchestrator uses, besides its store and its files.
#[derive(Clone)]
pub struct Environment {
    /// Tells the time and makes ids.
    pub clock: Arc<dyn Clock>,
    /// Signs finished runs; a simulation has no key.
    pub signer: Option<Arc<Signer>>,
    /// Runs work that blocks.
    pub blocking: Blocking,
    pub engines: Arc<dyn Spawner>,
    /// Renders the templates of packages.
    pub renderer: Arc<dyn Renderer>,
    /// skill-runner's own program, which is started again to install the packages of skills.
    pub program: PathBuf,
    /// Knows the agent CLIs.
    pub installed_engines: InstalledEngines,
    /// Whether runs can be confined.
    pub confinement: Confinement,
    /// Its place among other services on the same store, if there can be others.
    pub member: Option<Member>,
}

/// What a service needs to be one of several.
#[derive(Clone)]
pub struct Member {
    pub cluster: Arc<dyn Cluster>,
    pub info: NodeInfo,
    /// Where the services share files.
    pub blobs: Arc<dyn Blobs>,
}

impl Environment {
    pub fn real(settings: &Settings) -> Self {
        Self {
            clock: Arc::new(WallClock),
            signer: None,
            blocking: Blocking::Threads,
            engines: Arc::new(ProcessSpawner { groups: control_groups(settings) }),
            renderer: Arc::new(ChildRenderer::this_program()),
            program: std::env::current_exe().unwrap_or_default(),
            installed_engines: InstalledEngines::new(settings),
            confinement: match settings.runs.sandbox {
                Sandbox::Off => Confinement::Off,
                Sandbox::Auto | Sandbox::On => supervisor::probe(&settings.paths.data_dir),
            },
            member: None,
        }
    }
}

fn control_groups(settings: &Settings) -> ControlGroups {
    let asked = settings.runs.control_groups;
    let found = match asked {
        Groups::Off => ControlGroups::Off,
        Groups::Auto => ControlGroups::find(false),
        Groups::On => ControlGroups::find(true),
    };
    match &found {
        ControlGroups::Missing { reason } if asked == Groups::On => warn!(reason, "runs have no control groups"),
        ControlGroups::Missing { reason } => debug!(reason, "runs have no control groups"),
        ControlGroups::Below { .. } | ControlGroups::BelowEach(_) | ControlGroups::Off => {}
    }
    found
}
