//! The data folder beside a database: it has the files of the runs, so each belongs to the other.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::files;
use crate::store::Error;
use crate::store::claim::Claim;

/// What `FORMAT` says for a folder whose log is in a database.
const FORMAT: &str = "postgres 1";

/// A data folder that this process has, and its identity.
pub(super) struct Folder {
    pub(super) id: Uuid,
    pub(super) path: PathBuf,
    _claim: Claim,
}

impl Folder {
    /// Takes the folder, creating it if needed. One with another store is refused.
    pub(super) fn take(data_dir: &Path, store: &str) -> Result<Folder, Error> {
        let claim = Claim::take(data_dir)?;
        let (format, inside) = (data_dir.join("FORMAT"), data_dir.join("store"));
        let unusable = |reason: String| Error::Unusable { store: store.to_owned(), reason };
        let found = match fs::read(&format) {
            Ok(text) => Some(String::from_utf8_lossy(&text).trim().chars().take(80).collect::<String>()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("read", &format)(error)),
        };
        match found.as_deref() {
            Some(FORMAT) => {}
            None if !inside.exists() => {
                fs::create_dir_all(&inside).map_err(Error::io("create", &inside))?;
                files::write_durably(&inside.join("id"), format!("{}\n", Uuid::now_v7()).as_bytes())?;
                files::write_durably(&format, format!("{FORMAT}\n").as_bytes())?;
                files::sync(data_dir)?;
            }
            Some(other) => {
                return Err(unusable(format!(
                    "the data folder {} has a log of its own ({other}): choose another data_dir for this database",
                    data_dir.display()
                )));
            }
            None => {
                // A start was cut short before it was marked.
                files::write_durably(&format, format!("{FORMAT}\n").as_bytes())?;
            }
        }
        let path = inside.join("id");
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let id = Uuid::try_parse(text.trim())
            .map_err(|error| Error::CorruptFile { path, reason: format!("it is no id: {error}") })?;
        Ok(Folder { id, path: data_dir.to_path_buf(), _claim: claim })
    }
}
