//! A run as one zip: the same files give the same bytes, at any time and on any machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::content::{self, Budget, TOO_LARGE, UNREADABLE};
use super::error::Error;
use super::manifest::{Manifest, pretty};
use super::walk::{self, Refused, TOO_MANY};
use crate::domain::cache_key::sha256_hex;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::files::{self, WithinRoom};
use crate::projection::{check_shown, is_in_skill_copy};

/// Shorter files are stored without compression: to set up a compressor costs more than it saves.
const WORTH_COMPRESSING: u64 = 1024;
/// From this length on a zip entry needs the long form of its sizes.
const LONG_FORM_BYTES: u64 = 0xffff_0000;

/// Which files go into a bundle.
#[derive(Debug)]
pub enum Contents {
    /// Result, artifacts and their manifest.
    Result,
    /// Everything in the run's folder that may be shown, but the bundles themselves and what is made of the log.
    Everything {
        /// Whether the run's copy of its skill is among it.
        with_skill: bool,
        /// Files that are not in the folder, or take the place of those that are, by their paths.
        added: Vec<(&'static str, File)>,
    },
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

impl Bundle {
    /// Whether a file may have been left out because of its length, or because there are too many.
    pub(crate) fn is_too_much(&self, path: &str) -> bool {
        let is = |refused: &Refused| refused.path_rel == path && refused.reason == TOO_LARGE;
        self.refused.iter().any(|refused| is(refused) || refused.reason == TOO_MANY)
    }
}

/// Writes the zip and the list of what is in it. Both are written whole; the caller makes them durable, together with the
/// run's other files. It fails as on a full disk before less than `floor` bytes are free.
pub fn bundle(run_root: &Path, contents: Contents, zip: &Path, manifest: &Path, floor: u64) -> Result<Bundle, Error> {
    let without_list = matches!(contents, Contents::Result);
    let (chosen, mut refused) = chosen(run_root, contents)?;
    let mut listed = Vec::with_capacity(chosen.len());
    files::write_whole_with(zip, |file| {
        let file = WithinRoom::new(file, run_root, floor);
        let mut writer = ZipWriter::new(BufWriter::with_capacity(64 * 1024, file));
        let mut budget = Budget::new();
        for (path, added) in chosen {
            let source = run_root.join(&path);
            let opened = match added {
                Some(added) => Some(added),
                None => content::open(run_root, &path)?,
            };
            match opened {
                None => refused.push(Refused { path_rel: path, reason: UNREADABLE }),
                Some(file) if !budget.allows(&file, &source)? => {
                    refused.push(Refused { path_rel: path, reason: TOO_LARGE });
                }
                Some(file) if without_list && path == RunFile::Manifest.name() => {
                    listed.push(add_manifest(&mut writer, file, &source, path)?);
                }
                Some(file) => listed.push(add(&mut writer, file, &source, path)?),
            }
        }
        let finished = writer.finish().map_err(files::Error::on("finish", zip))?;
        finished.into_inner().map(drop).map_err(|error| files::Error::on("write", zip)(error.into_error()))
    })?;
    files::write_whole(manifest, &pretty(&serde_json::json!({ "files": listed })))?;
    Ok(Bundle { files: listed, refused })
}

/// The files of a bundle by their paths, with those that are given open; and what is left out.
type Chosen = (BTreeMap<String, Option<File>>, Vec<Refused>);

fn chosen(run_root: &Path, contents: Contents) -> Result<Chosen, Error> {
    match contents {
        Contents::Everything { with_skill, added } => {
            let mut walked = walk::walk(run_root, "", Some(RunFolder::Bundles))?;
            let is_chosen = |path: &str| {
                check_shown(path).is_ok()
                    && path != RunFile::EventsIndex.name()
                    && (with_skill || !is_in_skill_copy(path))
            };
            walked.files.retain(|path| is_chosen(path));
            walked.refused.retain(|refused| refused.reason == TOO_MANY || is_chosen(&refused.path_rel));
            let mut chosen = in_folder(walked.files);
            chosen.extend(added.into_iter().map(|(path, file)| (path.to_owned(), Some(file))));
            Ok((chosen, walked.refused))
        }
        Contents::Result => {
            let mut walked = walk::walk(run_root, RunFolder::Artifacts.name(), None)?;
            let (manifest, result) = (RunFile::Manifest.name(), RunFile::Result.name());
            if run_root.join(manifest).symlink_metadata().is_ok_and(|found| found.is_file()) {
                walked.files.push(manifest.to_owned());
            }
            let results = walk::walk(run_root, RunFolder::Result.name(), None)?.files;
            walked.files.extend(results.into_iter().filter(|path| path == result));
            Ok((in_folder(walked.files), walked.refused))
        }
    }
}

fn in_folder(paths: Vec<String>) -> BTreeMap<String, Option<File>> {
    paths.into_iter().map(|path| (path, None)).collect()
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
