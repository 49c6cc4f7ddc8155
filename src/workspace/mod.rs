//! Every path under the data folder, and the files of a run.

mod beneath;
mod durable;
mod entry_name;
mod folders;
mod layout;
mod ranges;
mod reclaim;
mod removal;
mod share;
mod skill_copy;
mod unpack;
mod upload;
mod zip_end;

pub use beneath::{LookupError, open_beneath, open_regular};
pub use durable::{sync_file_system, sync_files, sync_run, write_durably, write_private, write_whole};
pub use folders::{create_run, free_bytes};
pub use layout::{Layout, RunPaths};
pub use ranges::{Encoding, LogRange, MAX_RANGE_BYTES, RangeError, read_range};
pub use removal::{remove_run, remove_tree};
pub use share::share_file;
pub use skill_copy::{copy_skill, write_skill};
pub use unpack::{Archive, UnpackedFile, UploadLimits};
pub use upload::{Manifest, UploadError, UploadedFile, promote_uploads, stage_uploads};

use std::io;
use std::path::{Path, PathBuf};

/// The file system did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}", path.display())]
pub struct Error {
    /// What was tried, such as `rename`.
    pub action: &'static str,
    /// On which path.
    pub path: PathBuf,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

impl Error {
    /// For `map_err`: the failed action and its path around the cause.
    fn on<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Error {
        move |source| Error { action, path: path.to_owned(), source: source.into() }
    }
}
