//! A package as one zip: the same files give the same bytes, at any time and on any machine.

use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::installed::Installed;
use crate::files::{self, Error, for_each_chunk};

/// Writes the zip of a package, whole: its folder alone at the top, as an installation expects it. How many bytes are in it.
pub(crate) fn pack(package: &Installed, zip: &Path, compressed: bool) -> Result<u64, Error> {
    let method = if compressed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
    let mut total = 0;
    files::write_whole_with(zip, |file| {
        let mut writer = ZipWriter::new(BufWriter::with_capacity(64 * 1024, file));
        for path in &package.files {
            let source = package.dir.join(path);
            let file = files::open_regular(&source)?;
            let found = file.metadata().map_err(Error::on("look at", &source))?;
            let executable = found.permissions().mode() & 0o111 != 0;
            let options = SimpleFileOptions::default()
                .compression_method(method)
                // The day on which the calendar of zips begins: the time of a file is no part of a package.
                .last_modified_time(DateTime::default())
                .unix_permissions(if executable { 0o755 } else { 0o644 });
            let name = format!("{}/{path}", package.skill.id);
            writer.start_file(name, options).map_err(Error::on("pack", &source))?;
            for_each_chunk(file, Error::on("read", &source), |chunk| {
                total += chunk.len() as u64;
                writer.write_all(chunk).map_err(Error::on("pack", &source))
            })?;
        }
        let finished = writer.finish().map_err(Error::on("finish", zip))?;
        finished.into_inner().map(drop).map_err(|error| Error::on("write", zip)(error.into_error()))
    })?;
    Ok(total)
}
