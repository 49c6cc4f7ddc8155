//! The zip of a finished run, made when somebody asks for it.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::artifact::{self, BundleFile, Contents};
use crate::domain::ids::{RunId, Seq};
use crate::domain::run_file::{RunFile, RunFolder};
use crate::files::{self, LookupError, open_beneath};
use crate::orchestrator::error::Error;
use crate::orchestrator::inspect::proven_run::ProvenRun;
use crate::orchestrator::log::checked::Checked;
use crate::orchestrator::log::run_log::RunLog;
use crate::workspace::RunPaths;

/// Bytes of a run's log that are read at once.
const PAGE_BYTES: usize = 1024 * 1024;

/// A zip of a run.
pub struct OpenedBundle {
    pub(crate) name: &'static str,
    pub file: File,
}

impl RunLog {
    /// The zip of a finished run. The first to ask has it made; from the same files it has the same bytes every time. It is not made
    /// if less than `floor` bytes of the disk would stay free.
    pub async fn bundle(&self, run: RunId, floor: u64) -> Result<OpenedBundle, Error> {
        let state = self.head(run).await?.state;
        if !state.status().is_final() {
            return Err(Error::NotReady);
        }
        let proven = self.proven(run).await?.ok_or(Error::NotReady)?;
        let (paths, debug, checked) = (self.paths(run), state.options.debug, self.checked().clone());
        if debug {
            self.add_log(run, &paths, floor).await?;
        }
        self.blocking().run("make a bundle", move || open_or_make(&proven, &paths, debug, &checked, floor)).await?
    }

    /// The bundle for debugging is made before the run's last event; the log is added when somebody first asks for it.
    async fn add_log(&self, run: RunId, paths: &RunPaths, floor: u64) -> Result<(), Error> {
        let (zip, list) = (paths.file(RunFile::DebugBundle), paths.file(RunFile::DebugBundleManifest));
        let place = zip.clone();
        let folder = paths.folder(RunFolder::Bundles);
        let begin = move || match place.exists() && !artifact::holds(&place, RunFile::Events.name())? {
            true => Ok(Some(NamedTempFile::new_in(&folder).map_err(Error::io("make a bundle"))?)),
            // One that is missing is told of where it is opened.
            false => Ok::<_, Error>(None),
        };
        let Some(mut log) = self.blocking().run("make a bundle", begin).await?? else { return Ok(()) };
        let mut events = self.events(run, Seq(0)).in_pages_of(PAGE_BYTES);
        while let Some(page) = events.next_page().await? {
            let write = move || {
                let written = page.iter().try_for_each(|batch| log.write_all(&batch.ndjson));
                written.map_err(Error::io("make a bundle")).map(|()| log)
            };
            log = self.blocking().run("make a bundle", write).await??;
        }
        let add = move || artifact::add_to(&zip, &list, RunFile::Events.name(), log.path(), floor);
        Ok(self.blocking().run("make a bundle", add).await??)
    }
}

/// No proof covers the zip, so one that this process has not made itself, or that was changed since, is made anew.
fn open_or_make(
    proven: &ProvenRun,
    paths: &RunPaths,
    debug: bool,
    checked: &Checked,
    floor: u64,
) -> Result<OpenedBundle, Error> {
    let bundle = RunFile::bundle(debug);
    let place = paths.file(bundle);
    let open = || open_beneath(&paths.root, Path::new(bundle.name()));
    match open() {
        // The one for debugging is made when the run ends: it holds what is removed then.
        Ok(file) if debug || is_known(&file, &place, checked) => return Ok(opened(bundle, file)),
        Ok(_) => {}
        Err(LookupError::NotFound) if !debug => {}
        Err(error) => return Err(broken(bundle, error)),
    }
    make(proven, paths, floor)?;
    let file = open().map_err(|error| broken(bundle, error))?;
    if let Ok(found) = file.metadata() {
        checked.put(&place, &found);
    }
    Ok(opened(bundle, file))
}

fn is_known(file: &File, place: &Path, checked: &Checked) -> bool {
    file.metadata().is_ok_and(|found| checked.is_unchanged(place, &found))
}

fn opened(bundle: RunFile, file: File) -> OpenedBundle {
    let name = RunFolder::Bundles.strip(bundle.name()).unwrap_or(bundle.name());
    OpenedBundle { name, file }
}

fn broken(bundle: RunFile, error: LookupError) -> Error {
    Error::io(format!("open {}", bundle.name()))(std::io::Error::other(error))
}

/// Makes the zip, and puts it in its place if every artifact in it is what the run left.
fn make(proven: &ProvenRun, paths: &RunPaths, floor: u64) -> Result<(), Error> {
    let folder = paths.folder(RunFolder::Bundles);
    // Not the run's folder itself: a clean-up may have just removed it.
    files::step("create", &folder)?;
    if let Err(error) = std::fs::create_dir(&folder)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(Error::io(format!("create {}", folder.display()))(error));
    }
    let making = tempfile::Builder::new().prefix(".making-").tempdir_in(&folder).map_err(Error::io("make a bundle"))?;
    let (zip, list) = (making.path().join("zip"), making.path().join("list"));
    let bundle = artifact::bundle(&paths.root, Contents::Result, &zip, &list, floor)?;
    compare(proven, &bundle.files)?;
    // The zip last: whoever finds it finds its list.
    for (from, to) in [(list, RunFile::BundleManifest), (zip, RunFile::Bundle)] {
        let to = paths.file(to);
        files::rename(&from, &to)?;
    }
    Ok(())
}

/// Refuses a bundle whose artifacts and result are not those that the run left.
fn compare(proven: &ProvenRun, bundled: &[BundleFile]) -> Result<(), Error> {
    let manifest = proven.manifest()?;
    let bundled: HashMap<&str, &str> = bundled.iter().map(|file| (file.path.as_str(), file.sha256.as_str())).collect();
    let artifacts =
        manifest.artifacts.iter().map(|artifact| (artifact.path_rel.as_str(), Some(artifact.sha256.as_str())));
    for (path, expected) in artifacts.chain([(RunFile::Result.name(), proven.result_sha256())]) {
        let found = *bundled.get(path).ok_or_else(|| proven.damaged(path, "it cannot be read".to_owned()))?;
        proven.compare_copy(path, found, expected.unwrap_or(found))?;
    }
    Ok(())
}
