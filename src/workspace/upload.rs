//! Uploaded inputs: put into the request's folder, then moved to the run by a rename.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::entry_name;
use super::unpack::{Archive, UploadLimits, within};
use super::upload_error::UploadError;
use super::upload_fields::{Assigned, UploadFields, assign};
use crate::domain::cache_key::sha256_hex;
use crate::domain::request::UploadedFile;
use crate::files::{self, Error, WithinRoom, sync_files};

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

/// What a client sends for the inputs of a run; each a file on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// A zip with files.
    pub zip: Option<PathBuf>,
    /// Files by themselves.
    pub parts: Vec<SentPart>,
}

/// A file that came without a zip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentPart {
    /// The input that it is for.
    pub field: String,
    /// Its name on the client's side.
    pub file_name: Option<String>,
    pub path: PathBuf,
}

/// What was staged, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Staged {
    pub manifest: Manifest,
    /// Entries of the zip that are for no input of the skill.
    pub ignored: Vec<String>,
}

/// Puts the files that a client sent into `staging` (`requests/<id>/uploads`), replacing what was staged before, and returns
/// when they are durable. Whether all fields are there is for the caller to check.
pub fn stage_uploads(
    sent: &Sent,
    staging: &Path,
    fields: &UploadFields,
    limits: &UploadLimits,
) -> Result<Staged, UploadError> {
    let archive = sent.zip.as_deref().map(|zip| Archive::open(zip, limits)).transpose()?;
    let assigned = archive.as_ref().map(|archive| assign(archive.names(), fields)).transpose()?.unwrap_or_default();
    let parts = parts(&sent.parts, fields, &assigned)?;
    check_limits(&sent.parts, limits)?;
    let request = staging.parent().unwrap_or(Path::new("."));
    let created_request = !request.exists();
    files::create_folder(request)?;
    let staged = stage(archive, &assigned, &parts, (staging, request), limits.min_free_bytes);
    if staged.is_err() && created_request {
        // Best effort: an empty folder that stays does no harm.
        files::remove_empty(request);
    }
    Ok(Staged { manifest: staged?, ignored: assigned.ignored })
}

/// Whether files that came without a zip keep the limits of an upload.
fn check_limits(parts: &[SentPart], limits: &UploadLimits) -> Result<(), UploadError> {
    within("max_entries", parts.len() as u64, limits.max_entries)?;
    let mut total: u64 = 0;
    for part in parts {
        let size = fs::metadata(&part.path).map_err(Error::on("look at", &part.path))?.len();
        total = total.saturating_add(size);
        within("max_file_bytes", size, limits.max_file_bytes)?;
    }
    within("max_upload_bytes", total, limits.max_upload_bytes)
}

/// For each part the name that it gets in `uploads/`.
fn parts<'a>(
    parts: &'a [SentPart],
    fields: &UploadFields,
    assigned: &Assigned,
) -> Result<Vec<(String, &'a SentPart)>, UploadError> {
    let mut names: Vec<(String, &SentPart)> = Vec::with_capacity(parts.len());
    for part in parts {
        let name = if fields.named.contains(&part.field) {
            part.field.clone()
        } else if fields.rest.as_ref() == Some(&part.field) {
            own_name(part)?
        } else {
            let expected = fields.named.iter().chain(&fields.rest).cloned().collect();
            return Err(UploadError::UnknownPart { name: part.field.chars().take(64).collect(), expected });
        };
        let told = |part: &SentPart| part.file_name.clone().unwrap_or_else(|| part.field.clone());
        let in_zip = assigned.taken.iter().find(|(_, place)| **place == name).map(|(entry, _)| entry.clone());
        let other = in_zip.or_else(|| names.iter().find(|(other, _)| *other == name).map(|(_, part)| told(part)));
        if let Some(other) = other {
            return Err(UploadError::TwoForOne { field: name, names: [other, told(part)] });
        }
        names.push((name, part));
    }
    Ok(names)
}

/// The name that a file has by itself, without folders.
fn own_name(part: &SentPart) -> Result<String, UploadError> {
    let given = part.file_name.as_deref().unwrap_or(&part.field);
    let name = given.rsplit(['/', '\\']).next().unwrap_or(given);
    match entry_name::objection(name) {
        None => Ok(name.to_owned()),
        Some(reason) => Err(UploadError::UnsafePath { name: given.chars().take(200).collect(), reason }),
    }
}

fn stage(
    archive: Option<Archive>,
    assigned: &Assigned,
    parts: &[(String, &SentPart)],
    (staging, request): (&Path, &Path),
    min_free_bytes: u64,
) -> Result<Manifest, UploadError> {
    let unpacking = tempfile::Builder::new()
        .prefix(".unpacking-")
        .tempdir_in(request)
        .map_err(Error::on("create a folder in", request))?;
    let mut files: Vec<UploadedFile> = Vec::new();
    if let Some(archive) = archive {
        let unpacked = archive.unpack_as(unpacking.path(), |entry| assigned.taken.get(entry).cloned())?;
        let entry_of: BTreeMap<&String, &String> = assigned.taken.iter().map(|(entry, place)| (place, entry)).collect();
        files.extend(unpacked.into_iter().map(|file| {
            let entry = entry_of.get(&file.name).map(|entry| last_part(entry).to_owned());
            let file_name = entry.filter(|entry| entry != last_part(&file.name));
            UploadedFile { name: file.name, size: file.size, sha256: file.sha256, file_name }
        }));
    }
    for (name, part) in parts {
        let (size, sha256) = copied(&part.path, &unpacking.path().join(name), min_free_bytes)?;
        let file_name = part.file_name.clone().filter(|given| given != name);
        files.push(UploadedFile { name: name.clone(), size, sha256, file_name });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let paths: Vec<PathBuf> = files.iter().map(|file| unpacking.path().join(&file.name)).collect();
    sync_files(unpacking.path(), &paths)?;
    files::remove_tree(staging)?;
    files::rename(unpacking.path(), staging)?;
    sync_files(request, std::slice::from_ref(&staging.to_owned()))?;
    Ok(Manifest { files })
}

/// Whether a file begins as zips do, or is empty.
pub(crate) fn begins_like_a_zip(path: &Path) -> Result<bool, UploadError> {
    let file = files::open_followed(path).map_err(Error::on("open", path))?;
    let mut first = Vec::with_capacity(2);
    file.take(2).read_to_end(&mut first).map_err(Error::on("read", path))?;
    Ok(first.is_empty() || first == b"PK")
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Copies a file; its size and the sha256 of its bytes.
fn copied(from: &Path, to: &Path, min_free_bytes: u64) -> Result<(u64, String), UploadError> {
    let file = files::open_followed(from).map_err(Error::on("open", from))?;
    let mut output = WithinRoom::new(files::create_new(to, false)?, to, min_free_bytes);
    let (mut hasher, mut size) = (Sha256::new(), 0);
    files::for_each_chunk(file, Error::on("read", from), |chunk| {
        size += chunk.len() as u64;
        hasher.update(chunk);
        output.write_all(chunk).map_err(Error::on("write", to))
    })?;
    Ok((size, hex::encode(hasher.finalize())))
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
    staging.parent().map(files::remove_empty);
    Ok(())
}
