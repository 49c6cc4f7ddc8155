//! Packs the files of a run into the zip that is uploaded.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::cli::failure::Failure;

/// From this length on a zip entry needs the long form of its sizes.
const LONG_FORM_BYTES: u64 = 0xffff_0000;

/// The zip; none when there are no files.
pub(crate) fn zip(files: &[(String, PathBuf)]) -> Result<Option<NamedTempFile>, Failure> {
    if files.is_empty() {
        return Ok(None);
    }
    let temporary = NamedTempFile::new().map_err(Failure::broken("make a temporary file"))?;
    let mut writer = ZipWriter::new(temporary);
    for (key, path) in files {
        add(&mut writer, key, path)?;
    }
    writer.finish().map(Some).map_err(Failure::broken("write the upload"))
}

fn add(writer: &mut ZipWriter<NamedTempFile>, key: &str, path: &Path) -> Result<(), Failure> {
    let unusable = |reason: String| Failure::Usage(format!("--file {key}={}: {reason}", path.display()));
    let mut file = File::open(path).map_err(|error| unusable(error.to_string()))?;
    let found = file.metadata().map_err(|error| unusable(error.to_string()))?;
    if !found.is_file() {
        return Err(unusable("it is not a regular file".to_owned()));
    }
    // Not compressed: it is unpacked at once, mostly on the same machine.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(found.len() >= LONG_FORM_BYTES);
    writer.start_file(key, options).map_err(|error| unusable(error.to_string()))?;
    io::copy(&mut file, writer).map_err(|error| unusable(error.to_string()))?;
    Ok(())
}
