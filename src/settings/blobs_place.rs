//! Where shared files are.

use std::fmt;
use std::path::PathBuf;

/// Places for the files that several services share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobsPlace {
    /// A folder that each of them reaches by this path.
    Folder(PathBuf),
}

impl BlobsPlace {
    pub fn parse(text: &str) -> Result<BlobsPlace, String> {
        if text.starts_with('/') && !text.contains('\0') {
            return Ok(BlobsPlace::Folder(PathBuf::from(text)));
        }
        Err("must be the path of a folder, beginning with /".to_owned())
    }
}

impl fmt::Display for BlobsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlobsPlace::Folder(path) => write!(f, "{}", path.display()),
        }
    }
}
