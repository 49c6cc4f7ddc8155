//! The files of a run: in its folder, or in its export.

use std::path::{Path, PathBuf};

use crate::artifact;
use crate::audit::error::Error;
use crate::domain::run_file::RunFolder;
use crate::export::{Export, Piece};
use crate::files::open_beneath;

#[derive(Debug)]
pub(crate) enum RunFiles {
    Folder(PathBuf),
    Export(Box<Export>),
}

/// An artifact that exists, whatever the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundArtifact {
    pub(crate) path_rel: String,
    pub(crate) size: u64,
    pub(crate) sha256: String,
}

impl RunFiles {
    /// Whether files that no export holds are to be expected here.
    pub(crate) fn is_export(&self) -> bool {
        matches!(self, Self::Export(_))
    }

    /// One file; none if it is missing or cannot be read.
    pub(crate) fn open(&self, name: &str) -> Option<Piece> {
        match self {
            Self::Folder(root) => Piece::whole(open_beneath(root, Path::new(name)).ok()?).ok(),
            Self::Export(export) => export.file(name),
        }
    }

    /// The artifacts that exist, whatever the log says.
    pub(crate) fn artifacts(&self) -> Result<Vec<FoundArtifact>, Error> {
        match self {
            Self::Folder(root) => {
                let found = artifact::index(root, &[]).map_err(Error::Artifacts)?.entries;
                let found = found.into_iter();
                Ok(found
                    .map(|entry| FoundArtifact { path_rel: entry.path_rel, size: entry.size, sha256: entry.sha256 })
                    .collect())
            }
            Self::Export(export) => {
                let names = export.names().filter(|name| RunFolder::Artifacts.strip(name).is_some());
                let mut found = Vec::new();
                for (name, piece) in names.filter_map(|name| Some((name, export.file(name)?))) {
                    let digest = piece.digest(|_| Ok(())).map_err(Error::read(name))?;
                    let (size, sha256) = (digest.size, digest.sha256);
                    found.push(FoundArtifact { path_rel: name.to_owned(), size, sha256 });
                }
                Ok(found)
            }
        }
    }
}
