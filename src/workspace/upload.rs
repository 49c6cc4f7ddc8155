//! Uploaded inputs: staged under their request, promoted to the run by a rename.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zip::result::ZipError;

use super::unpack::{Archive, UploadLimits};
use super::{Error, sync_files};
use crate::domain::cache_key::sha256_hex;

pub use crate::domain::request::UploadedFile;

/// The uploads of a run, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The files.
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

/// An upload that was not taken; nothing of it is left on the disk.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The bytes are no zip that can be read.
    #[error("the upload is not a readable zip: {reason}")]
    InvalidZip {
        /// What is wrong with it.
        reason: String,
    },
    /// An entry that must not become a file.
    #[error("the zip's entry {name:?} is refused: {reason}")]
    UnsafePath {
        /// The entry.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A limit was passed.
    #[error("the upload passes the limit {limit} of {allowed}")]
    TooLarge {
        /// The limit's name.
        limit: &'static str,
        /// What it allows.
        allowed: u64,
    },
    /// Files the skill has no field for.
    #[error("the zip holds {names:?}; at its top level it may only hold the skill's file fields {expected:?}")]
    UnexpectedFiles {
        /// The names that fit no field.
        names: Vec<String>,
        /// The fields of the skill.
        expected: Vec<String>,
    },
    /// The runner could not read or write.
    #[error(transparent)]
    Io(#[from] Error),
}

impl UploadError {
    /// The code clients see.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidZip { .. } => "INVALID_ZIP",
            Self::UnsafePath { .. } => "UNSAFE_PATH",
            Self::TooLarge { .. } => "PAYLOAD_TOO_LARGE",
            Self::UnexpectedFiles { .. } => "UNKNOWN_INPUT_KEY",
            Self::Io(error) if error.source.kind() == io::ErrorKind::StorageFull => "INSUFFICIENT_STORAGE",
            Self::Io(_) => "INTERNAL",
        }
    }

    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io(Error { action, path: path.to_owned(), source })
    }

    /// The same error with the path it happened on, where that was not known.
    pub(super) fn named(self, path: &Path) -> Self {
        match self {
            Self::Io(error) => Self::io(error.action, path, error.source),
            Self::InvalidZip { .. }
            | Self::UnsafePath { .. }
            | Self::TooLarge { .. }
            | Self::UnexpectedFiles { .. } => self,
        }
    }
}

impl From<ZipError> for UploadError {
    fn from(error: ZipError) -> Self {
        match error {
            // The zip reader's own findings have no number from the operating system; the disk's have.
            ZipError::Io(error) if error.raw_os_error().is_some() => Self::io("read", Path::new("the zip"), error),
            ZipError::Io(error) => Self::InvalidZip { reason: error.to_string() },
            other => Self::InvalidZip { reason: other.to_string() },
        }
    }
}

/// Unpacks an uploaded zip into `staging` (`requests/<id>/uploads`), replacing what was staged before, and returns when
/// it is durable. Every entry must be one of the skill's file fields; which of them are missing is not judged here.
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
    fs::create_dir_all(request).map_err(|source| UploadError::io("create", request, source))?;
    let staged = stage(archive, staging, request);
    if staged.is_err() && created_request {
        // Best effort: the refusal is the answer, whatever becomes of the empty folder.
        let _ = fs::remove_dir(request);
    }
    staged
}

fn stage(archive: Archive, staging: &Path, request: &Path) -> Result<Manifest, UploadError> {
    let unpacking = tempfile::Builder::new()
        .prefix(".unpacking-")
        .tempdir_in(request)
        .map_err(|source| UploadError::io("create a folder in", request, source))?;
    let files: Vec<UploadedFile> = archive
        .unpack(unpacking.path())?
        .into_iter()
        .map(|file| UploadedFile { name: file.name, size: file.size, sha256: file.sha256 })
        .collect();
    let paths: Vec<PathBuf> = files.iter().map(|file| unpacking.path().join(&file.name)).collect();
    sync_files(unpacking.path(), &paths)?;
    if staging.exists() {
        super::remove_tree(staging)?;
    }
    fs::rename(unpacking.path(), staging).map_err(|source| UploadError::io("rename to", staging, source))?;
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

/// Moves staged uploads to their run, whose own `uploads/` is still empty. Done before: nothing happens, so a
/// promotion cut short by a crash can be repeated.
pub fn promote_uploads(staging: &Path, uploads: &Path) -> Result<(), Error> {
    match fs::rename(staging, uploads) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && uploads.is_dir() => return Ok(()),
        renamed => renamed.map_err(Error::on("move the uploads to", uploads))?,
    }
    sync_files(uploads, std::slice::from_ref(&uploads.to_owned()))?;
    // The request's folder held nothing else; one that does is left for its owner.
    let _ = staging.parent().map(fs::remove_dir);
    Ok(())
}
