//! Uploaded inputs: unpacked into the request's folder, then moved to the run by a rename.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::unpack::{Archive, UploadLimits};
use super::upload_error::UploadError;
use crate::domain::cache_key::sha256_hex;
use crate::domain::request::UploadedFile;
use crate::files::{self, Error, sync_files};

/// The uploads of a run, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub files: Vec<UploadedFile>,
}

impl Manifest {
    /// sha256 over the compact JSON array of the files, sorted by name, members in the order name, size, sha256.
    pub fn sha256(&self) -> String {
        let files: Vec<_> = self
            .files
            .iter()
            .map(|file| serde_json::json!({"name": file.name, "size": file.size, "sha256": file.sha256}))
            .collect();
        sha256_hex(serde_json::Value::Array(files).to_string().as_bytes())
    }
}

/// Unpacks an uploaded zip into `staging` (`requests/<id>/uploads`), replacing what was staged before, and returns when
/// it is durable. Every entry must be one of the skill's file fields; whether all fields are there is for the caller to
/// check.
pub fn stage_uploads(
    zip: &Path,
    staging: &Path,
    file_fields: &[String],
    limits: &UploadLimits,
) -> Result<Manifest, UploadError> {
    let archive = Archive::open(zip, limits)?;
    only_fields(&archive, file_fields)?;
    let request = staging.parent().unwrap_or(Path::new("."));
    let created_request = !request.exists();
    files::create_folder(request)?;
    let staged = stage(archive, staging, request);
    if staged.is_err() && created_request {
        // Best effort: an empty folder that stays does no harm.
        let _ = fs::remove_dir(request);
    }
    staged
}

fn stage(archive: Archive, staging: &Path, request: &Path) -> Result<Manifest, UploadError> {
    let unpacking = tempfile::Builder::new()
        .prefix(".unpacking-")
        .tempdir_in(request)
        .map_err(Error::on("create a folder in", request))?;
    let files: Vec<UploadedFile> = archive
        .unpack(unpacking.path())?
        .into_iter()
        .map(|file| UploadedFile { name: file.name, size: file.size, sha256: file.sha256 })
        .collect();
    let paths: Vec<PathBuf> = files.iter().map(|file| unpacking.path().join(&file.name)).collect();
    sync_files(unpacking.path(), &paths)?;
    files::remove_tree(staging)?;
    files::rename(unpacking.path(), staging)?;
    sync_files(request, std::slice::from_ref(&staging.to_owned()))?;
    Ok(Manifest { files })
}

fn only_fields(archive: &Archive, file_fields: &[String]) -> Result<(), UploadError> {
    let expected: BTreeSet<&str> = file_fields.iter().map(String::as_str).collect();
    let names: Vec<String> = archive.names().filter(|name| !expected.contains(name)).map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(UploadError::UnexpectedFiles { names, expected: file_fields.to_vec() })
}

/// Moves staged uploads to their run, whose own `uploads/` is missing or empty. Where nothing is staged, or that was done
/// before, nothing happens, so it can be repeated after a crash.
pub fn promote_uploads(staging: &Path, uploads: &Path) -> Result<(), Error> {
    files::step("move the uploads to", uploads)?;
    match fs::rename(staging, uploads) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !staging.exists() => return Ok(()),
        renamed => renamed.map_err(Error::on("move the uploads to", uploads))?,
    }
    sync_files(uploads, std::slice::from_ref(&uploads.to_owned()))?;
    // Only an empty folder is removed: the request's folder may hold its engine configuration.
    let _ = staging.parent().map(fs::remove_dir);
    Ok(())
}
