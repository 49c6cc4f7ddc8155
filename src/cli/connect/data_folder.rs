//! Opens the data folder for this process alone.

use std::ffi::OsStr;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tracing::{error, warn};

use crate::blobs::{self, Blobs};
use crate::cli::failure::Failure;
use crate::cli::terminal::fold::to_stderr;
use crate::domain::causes::chain;
use crate::domain::codes::Exit;
use crate::files::{self, Reach};
use crate::orchestrator::{
    self, AccessError, Clock, Member, Orchestrator, WallClock, list_shared_tokens, move_in_tokens, share_rule,
};
use crate::registry::Registry;
use crate::settings::{Paths, Problem, Settings, StoreKind};
use crate::store::{self, Cluster, EventStore, NodeId, NodeInfo, Postgres, PostgresStore, SledStore};
use crate::workspace::{Layout, foreign_to_agent_home, foreign_to_data};

/// What to do on a machine that gives no sandbox.
pub(crate) const NO_SANDBOX: &str = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces), run the service as root, or set sandbox: auto or off";

/// Pause between two looks at a data folder that another process has.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Says why a command waits, once.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    said: bool,
}

impl Waiting {
    pub(crate) fn tell(&mut self, busy: &str) {
        if !std::mem::replace(&mut self.said, true) {
            to_stderr(&format!("{busy}\n  waiting until it has ended; Ctrl-C gives up"));
        }
    }
}

/// Who could reach the folders with runs, logins and keys before they were closed.
#[must_use = "what was found belongs in the log"]
pub(crate) struct Closed {
    folders: Vec<(PathBuf, Reach)>,
}

/// Closes the data folder and the home of the engines to other users of the machine, and lets this process create everything
/// for its own user alone. Before anything is written, the log file included.
pub(crate) fn close(settings: &Settings) -> Result<Closed, Failure> {
    let Paths { data_dir, agent_home, .. } = &settings.paths;
    // Before either is changed: other folders, such as / or a home, have other users.
    for (folder, foreign) in [(data_dir, foreign_to_data(data_dir)), (agent_home, foreign_to_agent_home(agent_home))] {
        let foreign =
            foreign.map_err(|error| unwritable(settings, folder, &files::Error::on("list", folder)(error)))?;
        if let Some(name) = foreign {
            return Err(not_ours(settings, folder, &name));
        }
    }
    no_links(settings)?;
    let folders = [data_dir, agent_home].into_iter().map(|folder| {
        let reach = files::close_folder(folder).map_err(|error| unwritable(settings, folder, &error))?;
        Ok((folder.clone(), reach))
    });
    let folders = folders.collect::<Result<_, Failure>>()?;
    files::create_for_owner_alone();
    Ok(Closed { folders })
}

/// Refuses links in the place of folders of the data folder, and of the logs in it: a start removes what is left in those folders and
/// appends to these files. The data folder itself may be one.
fn no_links(settings: &Settings) -> Result<(), Failure> {
    let (data_dir, log) = (&settings.paths.data_dir, &settings.log);
    let logs = [Some(&log.file), log.access.as_ref()].into_iter().flatten().filter(|file| file.starts_with(data_dir));
    let mut all = Layout::new(data_dir).folders().into_iter().chain(logs.cloned());
    match all.find(|path| path.is_symlink()) {
        Some(path) => Err(unusable(settings, data_dir, format!("{}: {}", path.display(), files::LINKED))),
        None => Ok(()),
    }
}

/// A folder that cannot be made or closed.
fn unwritable(settings: &Settings, folder: &Path, error: &files::Error) -> Failure {
    let message = format!("cannot be written: {}; choose a folder of your own with --data-dir", chain(error));
    unusable(settings, folder, message)
}

/// A folder that holds something else.
fn not_ours(settings: &Settings, folder: &Path, name: &OsStr) -> Failure {
    let what = if *folder == settings.paths.data_dir { "is no data folder" } else { "has no folder of an engine" };
    let message = format!(
        "holds something else ({}) and {what}, so it was left as it is; choose one that is new or empty",
        name.display()
    );
    unusable(settings, folder, message)
}

/// Told as the setting that names the folder.
fn unusable(settings: &Settings, folder: &Path, message: String) -> Failure {
    let key = if *folder == settings.paths.data_dir { "data_dir" } else { "agent_home" };
    Failure::Configuration(vec![Problem { key: key.to_owned(), place: folder.display().to_string(), message }])
}

impl Opened {
    /// Whether services share a named token that opens them at this moment.
    pub(crate) async fn any_shared_token_opens(&self) -> Result<bool, Failure> {
        let Some(Shared { cluster, .. }) = &self.shared else { return Ok(false) };
        let tokens = list_shared_tokens(&**cluster).await.map_err(Failure::broken("read the tokens"))?;
        Ok(tokens.iter().any(|token| !token.is_expired(WallClock.now())))
    }
}

impl Closed {
    /// Logs which folders were open to others, or still are.
    pub(crate) fn report(self) {
        for (folder, reach) in self.folders {
            report(&folder, reach);
        }
    }
}

fn report(folder: &Path, reach: Reach) {
    let folder = folder.display();
    match reach {
        Reach::Owner => {}
        Reach::OwnerSince { mode } => {
            warn!(%folder, "other users could reach the folder (mode {mode:04o}); from now on only the service's user can");
        }
        Reach::Others { mode, owner } => {
            warn!(
                %folder, owner,
                "other users can reach the folder (mode {mode:04o}), and that cannot be changed; \
                 use a folder of the service's own user on a file system with permissions"
            );
        }
    }
}

/// Opens the store; creates the data folder if it is missing.
pub(crate) fn open_store(settings: &Settings) -> Result<Arc<dyn EventStore>, Failure> {
    let data_dir = &settings.paths.data_dir;
    Ok(match &settings.store.kind {
        StoreKind::Sled => {
            not_lost(&Layout::new(data_dir))?;
            Arc::new(SledStore::open(data_dir, end)?)
        }
        StoreKind::Postgres(url) => Arc::new(PostgresStore::open(&Postgres::new(url.expose()), Some(data_dir), end)?),
    })
}

/// Whether several services may share the store.
pub(crate) fn is_shared(settings: &Settings) -> bool {
    matches!(settings.store.kind, StoreKind::Postgres(_)) && settings.several.blobs.is_some()
}

/// The settings ask for something that only services on a shared store can do.
pub(crate) fn not_shared(key: &str, why: &str) -> Failure {
    let message = format!("{why}: set store to a postgres:// URL and blobs to a place that all services reach");
    Failure::Configuration(vec![Problem { key: key.to_owned(), place: "the settings".to_owned(), message }])
}

/// A store for a service, and what it needs to share it.
pub(crate) struct Opened {
    store: Arc<dyn EventStore>,
    shared: Option<Shared>,
}

struct Shared {
    cluster: Arc<dyn Cluster>,
    node: NodeId,
    blobs: Arc<dyn Blobs>,
}

/// Opens the store for a service, to be shared with others where the settings say so.
pub(crate) fn open_for_service(settings: &Settings) -> Result<Opened, Failure> {
    let (StoreKind::Postgres(url), Some(place)) = (&settings.store.kind, &settings.several.blobs) else {
        if settings.several.blobs.is_some() {
            let message = "files are shared only between services that share a store: set store to a postgres:// URL, or leave blobs out";
            let problem =
                Problem { key: "blobs".to_owned(), place: "the settings".to_owned(), message: message.to_owned() };
            return Err(Failure::Configuration(vec![problem]));
        }
        return Ok(Opened { store: open_store(settings)?, shared: None });
    };
    let blobs = blobs::open(place).map_err(Failure::broken("open the shared files"))?;
    let options = Postgres { alone: false, share: share_rule(&settings.runs), ..Postgres::new(url.expose()) };
    let store = Arc::new(PostgresStore::open(&options, Some(&settings.paths.data_dir), end)?);
    let shared = store.cluster().map(|cluster| Shared { cluster, node: store.node(), blobs });
    Ok(Opened { store, shared })
}

/// A shared store that a command has open beside the services.
pub(crate) struct SharedStore {
    // Connected as long as this is there.
    _store: PostgresStore,
    pub(crate) cluster: Arc<dyn Cluster>,
    runtime: tokio::runtime::Runtime,
}

/// How long a command waits for a database that went away.
const COMMAND_PATIENCE: Duration = Duration::from_secs(10);

impl SharedStore {
    /// The store that the settings say several services share; `None` if they do not. No service has to run.
    pub(crate) fn open(settings: &Settings) -> Result<Option<Self>, Failure> {
        let (StoreKind::Postgres(url), true) = (&settings.store.kind, is_shared(settings)) else { return Ok(None) };
        let options = Postgres {
            alone: false,
            share: share_rule(&settings.runs),
            read_patience: COMMAND_PATIENCE,
            write_patience: COMMAND_PATIENCE,
            ..Postgres::new(url.expose())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::broken("start the runtime"))?;
        let store = PostgresStore::open(&options, None, end)?;
        Ok(store.cluster().map(|cluster| Self { _store: store, cluster, runtime }))
    }

    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// A data folder that has runs has a store. Without it the files of all runs would stay, and nobody would know them.
fn not_lost(layout: &Layout) -> Result<(), Failure> {
    let holds_something = |folder: &Path| folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if holds_something(&layout.store()) || !holds_something(&layout.runs()) {
        return Ok(());
    }
    Err(Failure::Broken(format!(
        "{} is missing or empty, but {} has runs; nothing was changed\n  put it back where it was, or restore a backup; to begin anew, move {} away first",
        layout.store().display(),
        layout.runs().display(),
        layout.runs().display()
    )))
}

/// Names the store that is being filled, in its folder.
const NAMED: &str = "for";

/// Opens a store in a folder of its own, for what another one holds. It is empty: what an earlier try with the same folder left is
/// removed, and one that anybody else has filled is refused.
pub(crate) fn open_empty_store(kind: &StoreKind, folder: &Path) -> Result<Arc<dyn EventStore>, Failure> {
    let text = kind.to_string();
    let again = match kind {
        StoreKind::Sled => false,
        // The database knows the folder again by its id.
        StoreKind::Postgres(_) => new_store_in(folder)?.is_some_and(|found| found == text),
    };
    let make = || {
        if !again {
            remove(folder)?;
            files::create_private_folder(folder)?;
        }
        files::write_durably(&folder.join(NAMED), text.as_bytes())
    };
    make().map_err(Failure::broken("make the folder of the new store"))?;
    let opened: Result<Arc<dyn EventStore>, store::Error> = match kind {
        StoreKind::Sled => SledStore::open(folder, end).map(|store| Arc::new(store) as _),
        StoreKind::Postgres(url) => {
            let options = Postgres { to_fill: true, ..Postgres::new(url.expose()) };
            PostgresStore::open(&options, Some(folder), end).map(|store| Arc::new(store) as _)
        }
    };
    if opened.is_err() && !again {
        // Nothing was changed, so nothing stays.
        remove(folder).map_err(Failure::broken("remove the folder of the new store"))?;
    }
    Ok(opened?)
}

/// The store that was being filled in this folder, as it is shown.
pub(crate) fn new_store_in(folder: &Path) -> Result<Option<String>, Failure> {
    let found =
        files::read_optional(&folder.join(NAMED)).map_err(Failure::broken("read the folder of the new store"))?;
    Ok(found.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

fn remove(folder: &Path) -> Result<(), files::Error> {
    if folder.symlink_metadata().is_ok() {
        files::remove_tree(folder)?;
    }
    Ok(())
}

/// Ends the process: the store can no longer be written.
fn end(failed: &store::Error) {
    error!(error = %chain(failed), "the event store failed; ending, because only a restart can find out what was written");
    // At once and without clean-up: after a failed sync no write may be retried.
    std::process::exit(Exit::Failed.status().into());
}

/// Looks whether the store can be opened, and changes nothing; says what it found.
pub(crate) fn look_at_store(settings: &Settings) -> Result<String, store::Error> {
    let data_dir = &settings.paths.data_dir;
    match &settings.store.kind {
        StoreKind::Sled if !Layout::new(data_dir).store().exists() => {
            Ok("it does not exist yet; the first run creates it".to_owned())
        }
        StoreKind::Sled => SledStore::open(data_dir, |_| {}).map(|_| "it opens; no service is running".to_owned()),
        StoreKind::Postgres(url) => PostgresStore::look(&Postgres::new(url.expose())),
    }
}

/// Starts an orchestrator of a service, one of several where the store is shared. Others are told the address of its API.
pub(crate) async fn take_over_as_one(
    opened: Opened,
    registry: Registry,
    settings: Settings,
    address: Option<String>,
) -> Result<Orchestrator, Failure> {
    let Opened { store, shared } = opened;
    let Some(Shared { cluster, node, blobs }) = shared else { return take_over(store, registry, settings).await };
    let layout = Layout::new(&settings.paths.data_dir);
    move_in_tokens(&*cluster, &layout, WallClock.now()).await.map_err(|error| match error {
        AccessError::Differ { .. } => Failure::Usage(error.to_string()),
        other => Failure::broken("move the tokens of the data folder to the store")(other),
    })?;
    let several = &settings.several;
    let info = NodeInfo {
        node,
        name: several.node_name.clone().unwrap_or_else(host_name),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        address,
        works: several.work,
        lease: Duration::from_secs(several.lease_seconds),
    };
    let member = Member { cluster, info, blobs };
    Orchestrator::start_as_one(store, registry, settings, Some(member)).await.map_err(not_started)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Starts an orchestrator on the data folder.
pub(crate) async fn take_over(
    store: Arc<dyn EventStore>,
    registry: Registry,
    settings: Settings,
) -> Result<Orchestrator, Failure> {
    Orchestrator::start(store, registry, settings).await.map_err(not_started)
}

fn not_started(error: orchestrator::Error) -> Failure {
    match error {
        orchestrator::Error::SandboxMissing { reason } => {
            let message = format!("no run can be confined here: {reason}\n  {NO_SANDBOX}");
            Failure::Configuration(vec![Problem { key: "sandbox".to_owned(), place: "on".to_owned(), message }])
        }
        other => other.into(),
    }
}
