//! The skill of one run alone: its package comes with the upload and is never installed.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::bounded;
use crate::domain::event::{Started, UploadedPackage};
use crate::domain::state::RunState;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::intake::request::CreateRequest;
use crate::orchestrator::packages::temporary::remove_copies;
use crate::orchestrator::packages::unpack::unpack_package;
use crate::orchestrator::results::{file_proof, pretty};
use crate::orchestrator::shared::request_files::write_request;
use crate::registry::Installed;
use crate::workspace::{self, UploadLimits};

/// A package that was taken, unpacked outside its run; it goes with this value.
pub(crate) struct Delivered {
    pub(crate) installed: Installed,
    /// The run as it would have begun, had the package been there.
    pub planned: Started,
    /// What the log is told.
    pub package: UploadedPackage,
    engine_config: Option<Map<String, Value>>,
    _unpacked: TempDir,
}

impl Orchestrator {
    /// Unpack and judge the package of a run, by the rules for new packages and by what the run was asked for.
    pub(crate) async fn receive_package(&self, state: &RunState, zip: PathBuf) -> Result<Delivered, Error> {
        let shared = &self.shared;
        let limits = &shared.settings.limits;
        let limits = UploadLimits { max_upload_bytes: limits.temp_skill_package_max_bytes, ..self.upload_limits() };
        let (tmp, kept) = (shared.layout.tmp(), shared.layout.kept_request(state.request_id));
        let turn = shared.unpacking.turn().await?;
        let unpacked = shared.blocking.run("unpack the package", move || {
            let request = read_request(&kept)?;
            let (folder, installed, sha256) = unpack(&zip, &tmp, &limits)?;
            Ok::<_, Error>((request, folder, installed, sha256))
        });
        let (request, unpacked, installed, sha256) = unpacked.await??;
        drop(turn);
        let request = shared.with_engine(request, &installed.skill).await?;
        let engine_config = request.engine.as_deref().and_then(|engine| request.engine_config(engine)).cloned();
        let planned = shared.plan_checked(&installed.skill, request, None).await?;
        let package = UploadedPackage {
            skill: planned.skill.clone(),
            engine: planned.engine.clone(),
            runtime_options: planned.runtime_options.clone(),
            engine_config_sha256: planned.engine_config_sha256.clone(),
            sha256,
            defaults: (*planned.defaults).clone(),
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
}

fn read_request(kept: &Path) -> Result<CreateRequest, Error> {
    let doing = || format!("read {}", kept.display());
    let text = files::read_followed(kept).map_err(Error::io(doing()))?;
    bounded::json::from_slice(&text).map_err(|error| Error::io(doing())(error.into()))
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
