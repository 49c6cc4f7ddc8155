//! The uploaded files of a run, copied so that another run can be given the same.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::upload::{Sent, SentPart};
use crate::domain::request::UploadedFile;
use crate::files::{LookupError, create_new, for_each_chunk, open_beneath};

/// From this length on a zip entry needs the long form of its sizes.
const LONG_FORM_BYTES: u64 = 0xffff_0000;

/// Why the files of a run cannot be copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error("{name} is gone")]
    Gone { name: String },
    #[error("{name}: it is not what was uploaded")]
    Changed { name: String },
    #[error("copy the uploaded files")]
    Io(#[from] io::Error),
}

/// Copies the files of an uploads folder into an empty folder, as they would be sent. Blocks.
pub(crate) fn copy_uploads(uploads: &Path, files: &[UploadedFile], to: &Path) -> Result<Sent, CopyError> {
    let zip_path = to.join("zip");
    let mut zip = ZipWriter::new(create_new(&zip_path, false).map_err(io::Error::from)?);
    let mut parts = Vec::new();
    for (at, file) in files.iter().enumerate() {
        // What came under a name of its own is sent by itself, which tells that name again.
        if let Some(file_name) = &file.file_name {
            let path: PathBuf = to.join(format!("part-{at}"));
            copy(uploads, file, &mut create_new(&path, false).map_err(io::Error::from)?)?;
            parts.push(SentPart { field: file.name.clone(), file_name: Some(file_name.clone()), path });
            continue;
        }
        // Not compressed: it is unpacked at once, on the same machine.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(file.size >= LONG_FORM_BYTES);
        zip.start_file(&file.name, options).map_err(io::Error::from)?;
        copy(uploads, file, &mut zip)?;
    }
    zip.finish().map_err(io::Error::from)?;
    Ok(Sent { zip: Some(zip_path), parts })
}

/// Copies one file; an error if it is not what its entry says.
fn copy(uploads: &Path, file: &UploadedFile, to: &mut impl Write) -> Result<(), CopyError> {
    let from = open_beneath(uploads, Path::new(&file.name)).map_err(|error| match error {
        LookupError::NotFound => CopyError::Gone { name: file.name.clone() },
        LookupError::NotAFile | LookupError::Unsafe { .. } => CopyError::Changed { name: file.name.clone() },
        LookupError::Io { source } => CopyError::Io(source),
    })?;
    let mut hash = Sha256::new();
    for_each_chunk(
        from,
        |error| error,
        |chunk| {
            hash.update(chunk);
            to.write_all(chunk)
        },
    )?;
    if hex::encode(hash.finalize()) == file.sha256 {
        Ok(())
    } else {
        Err(CopyError::Changed { name: file.name.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_copied_as_they_were_sent_and_one_that_was_changed_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (uploads, to) = (folder.path().join("uploads"), folder.path().join("to"));
        [&uploads, &to].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let kept = |name: &str, file_name: Option<&str>, content: &str| {
            fs::write(uploads.join(name), content).unwrap();
            let (size, sha256) = (content.len() as u64, hex::encode(Sha256::digest(content)));
            UploadedFile { name: name.to_owned(), size, sha256, file_name: file_name.map(str::to_owned) }
        };
        let files = [kept("paper", Some("mine.txt"), "by itself"), kept("doc", None, "from a zip")];
        let sent = copy_uploads(&uploads, &files, &to).unwrap();
        let [part] = &sent.parts[..] else { panic!("{sent:?}") };
        assert_eq!((part.field.as_str(), part.file_name.as_deref()), ("paper", Some("mine.txt")));
        assert_eq!(fs::read_to_string(&part.path).unwrap(), "by itself");
        let mut zip = zip::ZipArchive::new(fs::File::open(sent.zip.unwrap()).unwrap()).unwrap();
        assert_eq!(zip.len(), 1);
        assert_eq!(io::read_to_string(zip.by_name("doc").unwrap()).unwrap(), "from a zip");

        let again = folder.path().join("again");
        fs::create_dir(&again).unwrap();
        fs::write(uploads.join("paper"), "by others").unwrap();
        let refused = copy_uploads(&uploads, &files, &again).unwrap_err();
        assert!(matches!(&refused, CopyError::Changed { name } if name == "paper"), "{refused}");
    }
}
