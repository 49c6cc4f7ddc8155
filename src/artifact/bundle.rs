//! A run as one zip: the same files give the same bytes, at any time and on any machine.

use std::io::{BufWriter, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::Error;
use super::content::{self, Chunk, UNREADABLE};
use super::manifest::pretty;
use super::walk::{self, Refused, Walked};

/// Shorter files are stored as they are: to set up a compressor costs more than it saves.
const WORTH_COMPRESSING: u64 = 1024;
/// From this length on a zip entry needs the long form of its sizes.
const LONG_FORM_BYTES: u64 = 0xffff_0000;

/// Which files go into a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Result, artifacts and their manifest.
    Result,
    /// Everything in the run's folder but the bundles themselves.
    Everything,
}

/// A file in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleFile {
    /// Its path in the run's folder and in the zip.
    pub path: String,
    /// Its length.
    pub size: u64,
    /// Its sha256 in hex.
    pub sha256: String,
}

/// What a bundle came to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The files, sorted by path.
    pub files: Vec<BundleFile>,
    /// What was left out: links, pipes, devices, files that cannot be read.
    pub refused: Vec<Refused>,
}

/// Writes the zip and, next to it, the list of what is in it. Both are written whole; making them durable is the
/// caller's, together with the run's other files.
pub fn bundle(run_root: &Path, contents: Contents, zip: &Path, manifest: &Path) -> Result<Bundle, Error> {
    let Walked { files: paths, mut refused } = chosen(run_root, contents)?;
    let mut files = Vec::with_capacity(paths.len());
    content::replace(zip, |file| {
        let mut writer = ZipWriter::new(BufWriter::with_capacity(64 * 1024, file));
        let mut chunk = Chunk::new();
        for path in paths {
            match add(&mut writer, run_root, &path, &mut chunk)? {
                Some(file) => files.push(file),
                None => refused.push(Refused { path_rel: path, reason: UNREADABLE }),
            }
        }
        let finished = writer.finish().map_err(Error::on("finish", zip))?;
        finished.into_inner().map(drop).map_err(|error| Error::on("write", zip)(error.into_error()))
    })?;
    let listed = pretty(&serde_json::json!({ "files": files }));
    content::replace(manifest, |file| file.write_all(&listed).map_err(Error::on("write", manifest)))?;
    Ok(Bundle { files, refused })
}

fn chosen(run_root: &Path, contents: Contents) -> Result<Walked, Error> {
    match contents {
        Contents::Everything => {
            let mut walked = walk::walk(run_root, "", Some("bundle"))?;
            walked.files.retain(|path| !may_hold_secrets(path));
            Ok(walked)
        }
        Contents::Result => {
            let mut walked = walk::walk(run_root, "artifacts", None)?;
            if run_root.join("manifest.json").symlink_metadata().is_ok_and(|found| found.is_file()) {
                walked.files.push("manifest.json".to_owned());
            }
            let result = walk::walk(run_root, "result", None)?;
            walked.files.extend(result.files.into_iter().filter(|path| path == "result/result.json"));
            // In this order the paths are sorted: `artifacts/…`, `manifest.json`, `result/…`.
            Ok(walked)
        }
    }
}

/// An engine's settings of this run, such as `.gemini/settings.json`, may carry keys and stay where they are.
fn may_hold_secrets(path: &str) -> bool {
    path.starts_with('.') && path.split('/').count() == 2
}

fn add<W: Write + Seek>(
    writer: &mut ZipWriter<W>,
    run_root: &Path,
    path: &str,
    chunk: &mut Chunk,
) -> Result<Option<BundleFile>, Error> {
    let source = run_root.join(path);
    let Some(mut file) = content::open(&source)? else { return Ok(None) };
    let found = file.metadata().map_err(Error::on("look at", &source))?;
    let method = if found.len() < WORTH_COMPRESSING { CompressionMethod::Stored } else { CompressionMethod::Deflated };
    let options = SimpleFileOptions::default()
        .compression_method(method)
        .last_modified_time(DateTime::DEFAULT)
        .unix_permissions(if found.mode() & 0o111 == 0 { 0o644 } else { 0o755 })
        .large_file(found.len() >= LONG_FORM_BYTES);
    writer.start_file(path, options).map_err(Error::on("add to the bundle", &source))?;
    let (size, sha256) = content::digest(&mut file, &source, chunk, |bytes| {
        writer.write_all(bytes).map_err(Error::on("add to the bundle", &source))
    })?;
    Ok(Some(BundleFile { path: path.to_owned(), size, sha256 }))
}
