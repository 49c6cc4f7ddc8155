//! Skills of one run: their package comes with the upload, is never installed, and goes when the run is over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Map, Value};
use tempfile::TempDir;
use tracing::{info, warn};

use crate::domain::causes::chain;
use crate::domain::event::{Started, UploadedPackage};
use crate::domain::ids::RunId;
use crate::domain::outcome::{RunError, code};
use crate::domain::state::RunState;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::{Orchestrator, Shared};
use crate::orchestrator::intake::create::{pretty, write_request};
use crate::orchestrator::intake::plan::plan;
use crate::orchestrator::intake::request::CreateRequest;
use crate::orchestrator::packages::unpack::unpack_package;
use crate::orchestrator::runs::actor::reject;
use crate::orchestrator::turn::last_files::file_proof;
use crate::registry::Installed;
use crate::skill::Skill;
use crate::workspace;
use crate::workspace::UploadLimits;

/// How often left-over packages are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// How long a run waits for its package.
const UPLOAD_WAITS: Duration = Duration::from_secs(24 * 3600);

/// A package that was taken, unpacked outside its run; it goes with this value.
pub(crate) struct Delivered {
    installed: Installed,
    /// The run as it would have begun, had the package been there.
    pub planned: Started,
    /// What the log is told.
    pub package: UploadedPackage,
    engine_config: Option<Map<String, Value>>,
    _unpacked: TempDir,
}

impl Delivered {
    /// The run's skill.
    pub fn skill(&self) -> &Skill {
        &self.installed.skill
    }
}

impl Orchestrator {
    /// Unpack and judge the package of a run, by the rules for new packages and by what the run was asked for.
    pub(crate) async fn receive_package(&self, state: &RunState, zip: PathBuf) -> Result<Delivered, Error> {
        let shared = &self.shared;
        let limits = &shared.settings.limits;
        let limits = UploadLimits { max_upload_bytes: limits.temp_skill_package_max_bytes, ..self.upload_limits() };
        let (tmp, kept) = (shared.layout.tmp(), shared.layout.kept_request(state.request_id));
        let unpacked = shared.blocking.run("unpack the package", move || {
            let request = read_request(&kept)?;
            let (folder, installed, sha256) = unpack(&zip, &tmp, &limits)?;
            Ok::<_, Error>((request, folder, installed, sha256))
        });
        let (request, unpacked, installed, sha256) = unpacked.await??;
        let request = shared.with_engine(request, &installed.skill).await?;
        let engine_config = request.engine.as_deref().and_then(|engine| request.engine_config(engine)).cloned();
        let planned = plan(shared, &installed.skill, request, None)?;
        let package = UploadedPackage {
            skill: planned.skill.clone(),
            engine: planned.engine.clone(),
            runtime_options: planned.runtime_options.clone(),
            engine_config_sha256: planned.engine_config_sha256.clone(),
            sha256,
        };
        Ok(Delivered { installed, planned, package, engine_config, _unpacked: unpacked })
    }

    /// Give the package to its run; durable when done.
    pub(crate) async fn place_package(&self, state: &RunState, delivered: &Delivered) -> Result<(), Error> {
        let shared = &self.shared;
        let paths = shared.layout.run(state.run_id);
        let copy = paths.skill_copy(&delivered.package.engine, &delivered.package.skill.id);
        let config_path = shared.layout.request_engine_config(state.request_id);
        let (installed, config) = (delivered.installed.clone(), delivered.engine_config.clone());
        let started = delivered.planned.clone();
        shared
            .blocking
            .run("place the package", move || {
                // An upload that a crash cut short may have left another package.
                remove_copies(&paths.root)?;
                let placed = workspace::copy_skill(&installed.dir, &installed.files, &copy).and_then(|_| {
                    write_request(&paths, &started)?;
                    if let Some(config) = config {
                        files::write_private(&config_path, &pretty(&Value::Object(config)))?;
                    }
                    workspace::sync_run(&paths)
                });
                if placed.is_err() {
                    // The next upload may bring another package.
                    let _ = remove_copies(&paths.root);
                }
                placed
            })
            .await?
            .map_err(Error::from)
    }

    /// Remove the packages of runs that are over, and end runs that have waited for theirs for longer than this.
    pub async fn sweep_temp_runs(&self, upload_waits: Duration) {
        sweep(&self.shared, upload_waits).await;
    }
}

fn read_request(kept: &Path) -> Result<CreateRequest, Error> {
    let doing = || format!("read {}", kept.display());
    let text = std::fs::read(kept).map_err(Error::io(doing()))?;
    serde_json::from_slice(&text).map_err(|error| Error::io(doing())(error.into()))
}

/// The package in a folder of its own, and the hash of its archive.
fn unpack(zip: &Path, tmp: &Path, limits: &UploadLimits) -> Result<(TempDir, Installed, String), Error> {
    let doing = || format!("unpack a package in {}", tmp.display());
    let sha256 = file_proof(zip)?.map(|proof| proof.sha256).unwrap_or_default();
    files::create_folder(tmp)?;
    let folder = tempfile::Builder::new().prefix("package-").tempdir_in(tmp).map_err(Error::io(doing()))?;
    let installed = unpack_package(zip, folder.path(), limits)?;
    Ok((folder, installed, sha256))
}

impl Shared {
    /// The temporary runs that the sweeper has to look at. Nothing can panic while it holds the lock.
    pub(crate) fn temp_runs(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.temp_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A temporary run is over: its package goes.
    pub(crate) fn remove_package_soon(self: &Arc<Self>, state: &RunState) {
        let (shared, state) = (self.clone(), state.clone());
        // Begun before this returns, so that the service does not end in between.
        let working = self.flights.working();
        tokio::spawn(async move {
            remove_package(&shared, &state).await;
            drop(working);
            shared.idle.notify_waiters();
        });
    }
}

/// Remove every engine's skills from a run's folder; they are this run's package, or what an upload before it left.
fn remove_copies(root: &Path) -> Result<(), files::Error> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let engines =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with('.')).map(|entry| entry.path());
    for engine in engines.filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_dir())) {
        files::remove_tree(&engine.join("skills"))?;
        // Where it held nothing else.
        let _ = std::fs::remove_dir(&engine);
    }
    Ok(())
}

async fn remove_package(shared: &Arc<Shared>, state: &RunState) {
    let run = state.run_id;
    let root = shared.layout.run(run).root;
    let request = shared.layout.request(state.request_id);
    let removed = shared.blocking.run("remove a package", move || {
        remove_copies(&root)?;
        files::remove_tree(&request)
    });
    match removed.await {
        Ok(Ok(_)) => {
            shared.temp_runs().remove(&run);
        }
        Ok(Err(error)) => warn!(run.id = %run, error = %chain(&error), "a package stays; the sweeper tries again"),
        Err(error) => warn!(run.id = %run, %error, "a package stays; the sweeper tries again"),
    }
}

/// Sweep now and then, until the service ends.
pub(crate) async fn sweep_often(shared: Weak<Shared>) {
    loop {
        match shared.upgrade() {
            Some(shared) => sweep(&shared, UPLOAD_WAITS).await,
            None => return,
        }
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}

async fn sweep(shared: &Arc<Shared>, upload_waits: Duration) {
    let runs: Vec<RunId> = shared.temp_runs().iter().copied().collect();
    for run in runs {
        if let Err(error) = sweep_run(shared, run, upload_waits).await {
            warn!(run.id = %run, error = %chain(&error), "a temporary run could not be swept");
        }
    }
}

async fn sweep_run(shared: &Arc<Shared>, run: RunId, upload_waits: Duration) -> Result<(), Error> {
    let state = match shared.log.head(run) {
        Ok(head) => head.state,
        Err(Error::RunNotFound { .. }) => {
            shared.temp_runs().remove(&run);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if state.status.is_final() {
        if state.options.debug_keep_temp {
            shared.temp_runs().remove(&run);
        } else {
            remove_package(shared, &state).await;
        }
        return Ok(());
    }
    if !state.awaiting_upload || state.created_at.plus_seconds(upload_waits.as_secs()) > shared.clock.now() {
        return Ok(());
    }
    let _claim = shared.claimed(run).await;
    let mut journal = shared.journal(run)?;
    if !journal.state().awaiting_upload || journal.state().status.is_final() {
        return Ok(());
    }
    info!(run.id = %run, "ending a run whose package never came");
    let message = "no skill_package was uploaded in time; create the run again and upload it";
    let error = RunError::new(code::MISSING_INPUT_FILES, message).with("missing", vec!["skill_package"]);
    reject(shared, &mut journal, error).await
}
