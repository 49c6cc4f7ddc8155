//! A file outside the run's folder that says which of the run's shared files are on this disk.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::blobs::Blob;
use crate::files;
use crate::workspace::RunPaths;

const LONGEST: u64 = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark(String);

impl Mark {
    /// The folders are as in this archive.
    pub(crate) fn rest(files: &Blob) -> Self {
        Self(format!("rest {}", hex::encode(files.sha256)))
    }

    /// The folders were as in this archive before a turn began in them.
    pub(crate) fn turn(turn: u32, files: &Blob) -> Self {
        Self(format!("turn {turn} {}", hex::encode(files.sha256)))
    }

    /// The folder holds all files of the finished run with this manifest.
    pub(crate) fn end(manifest: &Blob) -> Self {
        Self(format!("end {}", hex::encode(manifest.sha256)))
    }

    /// What is known of this run; nothing where nothing is. Blocks.
    pub(crate) fn read(paths: &RunPaths) -> Option<Self> {
        let bytes = files::read_regular(&paths.state, LONGEST).ok().flatten()?;
        String::from_utf8(bytes).ok().map(Self)
    }

    /// Blocks. The files it is about must be durable.
    pub(crate) fn write(&self, paths: &RunPaths) -> Result<(), files::Error> {
        files::create_parent(&paths.state)?;
        files::write_durably(&paths.state, self.0.as_bytes())
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// When the files of a run on this disk were last used; none if they are not here. Blocks.
pub(super) fn last_used(paths: &RunPaths) -> Option<SystemTime> {
    paths.state.symlink_metadata().ok()?.modified().ok()
}

/// Since when nobody has asked for the files of a run; none if they are not here. Blocks.
pub(super) fn unused_for(paths: &RunPaths) -> Option<Duration> {
    Some(SystemTime::now().duration_since(last_used(paths)?).unwrap_or_default())
}

/// Notes that somebody uses the files of a run now. Blocks.
pub(super) fn used(paths: &RunPaths) {
    set_used(paths, SystemTime::now());
}

pub(super) fn set_used(paths: &RunPaths, moment: SystemTime) {
    let noted = files::step("mark", &paths.state).map_err(std::io::Error::from);
    let file = noted.and_then(|()| std::fs::OpenOptions::new().append(true).open(&paths.state));
    // Not noted, they may have to be fetched again.
    let _ = file.and_then(|file| file.set_modified(moment));
}
