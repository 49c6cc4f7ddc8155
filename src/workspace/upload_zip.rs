//! The uploaded files of a run as a zip, so that another run can be given the same.

use std::fs;
use std::io::{self, Seek, Write};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::files::open_regular;

/// From this length on a zip entry needs the long form of its sizes.
const LONG_FORM_BYTES: u64 = 0xffff_0000;

/// Writes the files of an uploads folder to a zip, with their paths in it; how many there were. Blocks.
pub(crate) fn zip_uploads(folder: &Path, to: impl Write + Seek) -> io::Result<usize> {
    let mut writer = ZipWriter::new(to);
    let mut count = 0;
    let mut waiting = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = waiting.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| io::Error::other("a name is not UTF-8"))?;
            if entry.file_type()?.is_dir() {
                waiting.push((entry.path(), format!("{prefix}{name}/")));
                continue;
            }
            let mut file = open_regular(&entry.path()).map_err(|error| error.source)?;
            // Not compressed: it is unpacked at once, on the same machine.
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Stored)
                .large_file(file.metadata()?.len() >= LONG_FORM_BYTES);
            writer.start_file(format!("{prefix}{name}"), options)?;
            io::copy(&mut file, &mut writer)?;
            count += 1;
        }
    }
    writer.finish()?;
    Ok(count)
}
