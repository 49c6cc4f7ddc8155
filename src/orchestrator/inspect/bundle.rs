//! The zip of a finished run, made when somebody asks for it.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use crate::artifact::{self, BundleFile, Contents, Manifest};
use crate::domain::ids::RunId;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::files::{self, LookupError, open_beneath};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::run_log::RunLog;
use crate::workspace::RunPaths;

/// Longest list of artifacts that is read.
const LIST_MAX: u64 = 64 << 20;

/// A zip of a run.
pub struct OpenedBundle {
    pub(crate) name: &'static str,
    pub file: File,
}

impl RunLog {
    /// The zip of a finished run. The first to ask has it made; from the same files it has the same bytes every time.
    pub async fn bundle(&self, run: RunId) -> Result<OpenedBundle, Error> {
        let state = self.head(run).await?.state;
        if !state.status().is_final() {
            return Err(Error::NotReady);
        }
        let (paths, debug) = (self.folder(run).await?, state.options.debug);
        self.blocking().run("make a bundle", move || open_or_make(run, &paths, debug)).await?
    }
}

fn open_or_make(run: RunId, paths: &RunPaths, debug: bool) -> Result<OpenedBundle, Error> {
    let bundle = RunFile::bundle(debug);
    match open_beneath(&paths.root, Path::new(bundle.name())) {
        Ok(file) => return Ok(opened(bundle, file)),
        // The one for debugging is made when the run ends.
        Err(LookupError::NotFound) if !debug => {}
        Err(error) => return Err(broken(bundle, error)),
    }
    make(run, paths)?;
    open_beneath(&paths.root, Path::new(bundle.name()))
        .map(|file| opened(bundle, file))
        .map_err(|error| broken(bundle, error))
}

fn opened(bundle: RunFile, file: File) -> OpenedBundle {
    let name = RunFolder::Bundles.strip(bundle.name()).unwrap_or(bundle.name());
    OpenedBundle { name, file }
}

fn broken(bundle: RunFile, error: LookupError) -> Error {
    Error::io(format!("open {}", bundle.name()))(std::io::Error::other(error))
}

/// Makes the zip, and puts it in its place if every artifact in it is what the run left.
fn make(run: RunId, paths: &RunPaths) -> Result<(), Error> {
    let folder = paths.folder(RunFolder::Bundles);
    // Not the run's folder itself: a clean-up may have just removed it.
    if let Err(error) = std::fs::create_dir(&folder)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(Error::io(format!("create {}", folder.display()))(error));
    }
    let making = tempfile::Builder::new().prefix(".making-").tempdir_in(&folder).map_err(Error::io("make a bundle"))?;
    let (zip, list) = (making.path().join("zip"), making.path().join("list"));
    let bundle = artifact::bundle(&paths.root, Contents::Result, &zip, &list)?;
    compare(run, paths, &bundle.files)?;
    // The zip last: whoever finds it finds its list.
    for (from, to) in [(list, RunFile::BundleManifest), (zip, RunFile::Bundle)] {
        let to = paths.file(to);
        std::fs::rename(&from, &to).map_err(Error::io(format!("rename to {}", to.display())))?;
    }
    Ok(())
}

/// Refuses a bundle whose artifacts are not those that were indexed when the run ended.
fn compare(run: RunId, paths: &RunPaths, bundled: &[BundleFile]) -> Result<(), Error> {
    let corrupt = |message: String| Error::Corrupt { run: run.to_string(), message };
    let name = RunFile::Manifest.name();
    let bytes = files::read_beneath(&paths.root, Path::new(name), LIST_MAX).ok().flatten();
    let bytes = bytes.ok_or_else(|| corrupt(format!("{name} cannot be read")))?;
    let manifest = Manifest::read(&bytes).map_err(|error| corrupt(format!("{name}: {error}")))?;
    let bundled: HashMap<&str, &str> = bundled.iter().map(|file| (file.path.as_str(), file.sha256.as_str())).collect();
    for artifact in &manifest.artifacts {
        if bundled.get(artifact.path_rel.as_str()) != Some(&artifact.sha256.as_str()) {
            return Err(corrupt(format!("{} has changed since the run ended", artifact.path_rel)));
        }
    }
    if !bundled.contains_key(RunFile::Result.name()) {
        return Err(corrupt(format!("{} cannot be read", RunFile::Result.name())));
    }
    Ok(())
}
