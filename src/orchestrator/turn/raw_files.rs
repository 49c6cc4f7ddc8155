//! What the engine gave, kept as it was while other processes of the turn run in the same folder.

use std::io::Read;
use std::path::Path;

use crate::orchestrator::error::Error;
use crate::workspace;
use crate::workspace::{RunPaths, open_beneath};

/// Longest of these files: engines and scripts are held to far less.
const FILE_MAX: u64 = 64 << 20;

/// The raw output of a turn so far.
pub(crate) struct RawFiles(Vec<(&'static str, Vec<u8>)>);

impl RawFiles {
    const NAMES: [&str; 7] = [
        "raw/engine_output.txt",
        "raw/engine_output.json",
        "raw/script_output.txt",
        "raw/script_output.json",
        "raw/skill_result.json",
        "raw/skill_result.N1.json",
        "raw/skill_result.N2.json",
    ];

    /// Read them. Blocks.
    pub fn read(paths: &RunPaths) -> Self {
        Self(Self::NAMES.into_iter().filter_map(|name| Some((name, bytes(&paths.root, name)?))).collect())
    }

    /// Put back what is not as it was; whether anything was not. Blocks.
    pub fn put_back(&self, paths: &RunPaths) -> Result<bool, Error> {
        let changed: Vec<_> =
            self.0.iter().filter(|(name, kept)| bytes(&paths.root, name).as_ref() != Some(kept)).collect();
        if changed.is_empty() {
            return Ok(false);
        }
        // What stands in the way is moved aside.
        workspace::create_run(paths)?;
        for (name, kept) in &changed {
            workspace::write_whole(&paths.root.join(name), kept)?;
        }
        Ok(true)
    }
}

fn bytes(root: &Path, name: &str) -> Option<Vec<u8>> {
    let file = open_beneath(root, Path::new(name)).ok()?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
