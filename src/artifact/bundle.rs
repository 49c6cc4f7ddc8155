//! A run as one zip: the same files give the same bytes, at any time and on any machine.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::content::{self, Budget, TOO_LARGE, UNREADABLE};
use super::error::Error;
use super::manifest::{Manifest, pretty};
use super::walk::{self, Refused, Walked};
use crate::domain::cache_key::sha256_hex;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::files::{self, WithinRoom};
use crate::projection::check_shown;

/// Shorter files are stored without compression: to set up a compressor costs more than it saves.
const WORTH_COMPRESSING: u64 = 1024;
/// The list of a run's input files, in a bundle for debugging.
const INPUT_MANIFEST: &str = "input_manifest.json";
/// From this length on a zip entry needs the long form of its sizes.
const LONG_FORM_BYTES: u64 = 0xffff_0000;

/// Which files go into a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Result, artifacts and their manifest.
    Result,
    /// Everything in the run's folder that may be shown, but the bundles themselves.
    Everything,
}

/// A file in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleFile {
    /// Its path in the run's folder and in the zip.
    pub path: String,
    pub size: u64,
    /// Its sha256 in hex.
    pub sha256: String,
}

/// What was put into a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The files, sorted by path.
    pub files: Vec<BundleFile>,
    /// What was left out: links, pipes, devices, files that cannot be read or are too large.
    pub refused: Vec<Refused>,
}

/// Writes the zip and the list of what is in it. Both are written whole; the caller makes them durable, together with the
/// run's other files. It fails as on a full disk before less than `floor` bytes are free.
pub fn bundle(run_root: &Path, contents: Contents, zip: &Path, manifest: &Path, floor: u64) -> Result<Bundle, Error> {
    let Walked { files: paths, mut refused } = chosen(run_root, contents)?;
    let mut listed = Vec::with_capacity(paths.len());
    files::write_whole_with(zip, |file| {
        let file = WithinRoom::new(file, run_root, floor);
        let mut writer = ZipWriter::new(BufWriter::with_capacity(64 * 1024, file));
        let mut budget = Budget::new();
        for path in paths {
            let source = run_root.join(&path);
            match content::open(run_root, &path)? {
                None => refused.push(Refused { path_rel: path, reason: UNREADABLE }),
                Some(file) if !budget.allows(&file, &source)? => {
                    refused.push(Refused { path_rel: path, reason: TOO_LARGE });
                }
                Some(file) if contents == Contents::Result && path == RunFile::Manifest.name() => {
                    listed.push(add_manifest(&mut writer, file, &source, path)?);
                }
                Some(file) => listed.push(add(&mut writer, file, &source, path)?),
            }
        }
        if contents == Contents::Everything {
            listed.push(add_inputs(&mut writer, &listed, zip)?);
        }
        finish(writer, zip)
    })?;
    files::write_whole(manifest, &pretty(&json!({ "files": listed })))?;
    Ok(Bundle { files: listed, refused })
}

fn finish<W: Write + Seek>(writer: ZipWriter<BufWriter<W>>, zip: &Path) -> Result<(), files::Error> {
    let finished = writer.finish().map_err(files::Error::on("finish", zip))?;
    finished.into_inner().map(drop).map_err(|error| files::Error::on("write", zip)(error.into_error()))
}

/// The list of the files that the run was given.
fn add_inputs<W: Write + Seek>(
    writer: &mut ZipWriter<W>,
    listed: &[BundleFile],
    zip: &Path,
) -> Result<BundleFile, files::Error> {
    let input = |file: &&BundleFile| RunFolder::Uploads.strip(&file.path).is_some();
    let bytes = pretty(&json!({ "files": listed.iter().filter(input).collect::<Vec<_>>() }));
    begin(writer, INPUT_MANIFEST, zip, bytes.len() as u64, 0o644)?;
    writer.write_all(&bytes).map_err(files::Error::on("add to the bundle", zip))?;
    Ok(BundleFile { path: INPUT_MANIFEST.to_owned(), size: bytes.len() as u64, sha256: sha256_hex(&bytes) })
}

/// Whether a zip holds an entry of this name.
pub(crate) fn holds(zip: &Path, name: &str) -> Result<bool, Error> {
    Ok(open_zip(zip)?.index_for_name(name).is_some())
}

/// Adds a file to a zip, and to the list of what is in it; both are written whole.
pub(crate) fn add_to(zip: &Path, manifest: &Path, name: &str, source: &Path, floor: u64) -> Result<(), Error> {
    let mut there = open_zip(zip)?;
    let mut added = None;
    files::write_whole_with(zip, |file| {
        let mut writer = ZipWriter::new(BufWriter::with_capacity(64 * 1024, WithinRoom::new(file, zip, floor)));
        for index in 0..there.len() {
            let entry = there.by_index_raw(index).map_err(files::Error::on("read", zip))?;
            writer.raw_copy_file(entry).map_err(files::Error::on("add to the bundle", zip))?;
        }
        let opened = File::open(source).map_err(files::Error::on("open", source))?;
        added = Some(add(&mut writer, opened, source, name.to_owned())?);
        finish(writer, zip)
    })?;
    let text = files::read_followed(manifest).map_err(files::Error::on("read", manifest))?;
    let mut list: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    if let Some(files) = list.get_mut("files").and_then(serde_json::Value::as_array_mut) {
        files.extend(added.map(|added| json!(added)));
    }
    Ok(files::write_whole(manifest, &pretty(&list))?)
}

fn open_zip(zip: &Path) -> Result<ZipArchive<BufReader<File>>, files::Error> {
    let file = File::open(zip).map_err(files::Error::on("open", zip))?;
    ZipArchive::new(BufReader::new(file)).map_err(files::Error::on("read", zip))
}

fn chosen(run_root: &Path, contents: Contents) -> Result<Walked, Error> {
    match contents {
        Contents::Everything => {
            let mut walked = walk::walk(run_root, "", Some(RunFolder::Bundles))?;
            walked.files.retain(|path| check_shown(path).is_ok());
            walked.refused.retain(|refused| check_shown(&refused.path_rel).is_ok());
            Ok(walked)
        }
        Contents::Result => {
            let mut walked = walk::walk(run_root, RunFolder::Artifacts.name(), None)?;
            let (manifest, result) = (RunFile::Manifest.name(), RunFile::Result.name());
            if run_root.join(manifest).symlink_metadata().is_ok_and(|found| found.is_file()) {
                walked.files.push(manifest.to_owned());
            }
            let results = walk::walk(run_root, RunFolder::Result.name(), None)?.files;
            walked.files.extend(results.into_iter().filter(|path| path == result));
            // In this order the paths are sorted: `artifacts/…`, `manifest.json`, `result/…`.
            Ok(walked)
        }
    }
}

fn add<W: Write + Seek>(
    writer: &mut ZipWriter<W>,
    file: File,
    source: &Path,
    path: String,
) -> Result<BundleFile, files::Error> {
    let found = file.metadata().map_err(files::Error::on("look at", source))?;
    begin(writer, &path, source, found.len(), found.mode())?;
    let (size, sha256) = content::digest(file, source, |bytes| {
        writer.write_all(bytes).map_err(files::Error::on("add to the bundle", source))
    })?;
    Ok(BundleFile { path, size, sha256 })
}

/// The manifest without the files that are not in the bundle: equal runs have equal bundles.
fn add_manifest<W: Write + Seek>(
    writer: &mut ZipWriter<W>,
    mut file: File,
    source: &Path,
    path: String,
) -> Result<BundleFile, files::Error> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(files::Error::on("read", source))?;
    // One that was damaged is put in as it is: whoever makes the bundle finds out.
    if let Ok(manifest) = Manifest::read(&bytes) {
        bytes = Manifest { files: None, ..manifest }.to_bytes();
    }
    begin(writer, &path, source, bytes.len() as u64, 0o644)?;
    writer.write_all(&bytes).map_err(files::Error::on("add to the bundle", source))?;
    Ok(BundleFile { path, size: bytes.len() as u64, sha256: sha256_hex(&bytes) })
}

fn begin<W: Write + Seek>(
    writer: &mut ZipWriter<W>,
    path: &str,
    source: &Path,
    size: u64,
    mode: u32,
) -> Result<(), files::Error> {
    let method = if size < WORTH_COMPRESSING { CompressionMethod::Stored } else { CompressionMethod::Deflated };
    let options = SimpleFileOptions::default()
        .compression_method(method)
        .last_modified_time(DateTime::DEFAULT)
        .unix_permissions(if mode & 0o111 == 0 { 0o644 } else { 0o755 })
        .large_file(size >= LONG_FORM_BYTES);
    writer.start_file(path, options).map_err(files::Error::on("add to the bundle", source))
}
