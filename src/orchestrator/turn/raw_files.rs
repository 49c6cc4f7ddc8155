//! What the engine gave, kept as it was while other processes of the turn run in the same folder.

use std::path::Path;

use crate::domain::run_file::RunFile;
use crate::files;
use crate::orchestrator::error::Error;
use crate::workspace::RunPaths;

/// Longest of these files: engines and scripts are held to far less.
const FILE_MAX: u64 = 64 << 20;

/// The raw output of a turn so far.
pub(crate) struct RawFiles(Vec<(RunFile, Vec<u8>)>);

impl RawFiles {
    const FILES: [RunFile; 7] = [
        RunFile::EngineOutput,
        RunFile::EngineOutputJson,
        RunFile::ScriptOutput,
        RunFile::ScriptOutputJson,
        RunFile::SkillResult,
        RunFile::NormalizerResult,
        RunFile::FallbackResult,
    ];

    /// Reads them. Blocks.
    pub(crate) fn read(paths: &RunPaths) -> Self {
        Self(Self::FILES.into_iter().filter_map(|file| Some((file, bytes(paths, file)?))).collect())
    }

    /// Restores those that are not as they were; whether there were any. Blocks.
    pub(crate) fn restore(&self, paths: &RunPaths) -> Result<bool, Error> {
        let changed: Vec<_> = self.0.iter().filter(|(file, kept)| bytes(paths, *file).as_ref() != Some(kept)).collect();
        if changed.is_empty() {
            return Ok(false);
        }
        for (file, kept) in &changed {
            files::write_own(&paths.file(*file), kept)?;
        }
        Ok(true)
    }
}

fn bytes(paths: &RunPaths, file: RunFile) -> Option<Vec<u8>> {
    files::read_beneath(&paths.root, Path::new(file.name()), FILE_MAX).ok().flatten()
}
