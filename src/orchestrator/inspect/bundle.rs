//! The zip of a finished run, made when somebody asks for it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use serde_json::json;

use crate::artifact::{self, Bundle, Contents};
use crate::domain::ids::RunId;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::RunState;
use crate::files::{self, LookupError, open_beneath};
use crate::orchestrator::error::Error;
use crate::orchestrator::inspect::proven_run::ProvenRun;
use crate::orchestrator::log::checked::Checked;
use crate::orchestrator::log::run_log::RunLog;
use crate::orchestrator::results::pretty;
use crate::workspace::RunPaths;

/// The list of the files that were uploaded for a run, in its bundle for debugging.
const INPUT_MANIFEST: &str = "input_manifest.json";

/// A zip of a run.
pub struct OpenedBundle {
    pub(crate) name: &'static str,
    pub file: File,
}

/// Which of the two zips of a run.
#[derive(Clone, Copy)]
struct Kind {
    zip: RunFile,
    list: RunFile,
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
        let (paths, checked) = (self.paths(run), self.checked().clone());
        let debug = state.options.debug;
        let kind = Kind { zip: RunFile::bundle(debug), list: RunFile::bundle_manifest(debug) };
        let known = {
            let (paths, checked) = (paths.clone(), checked.clone());
            self.blocking().run("open a bundle", move || open_known(kind.zip, &paths, &checked)).await??
        };
        if let Some(bundle) = known {
            return Ok(bundle);
        }
        let contents = if debug { self.everything(&state).await? } else { Contents::Result };
        let tmp = self.layout().tmp();
        let make = move || {
            make(&proven, &paths, &tmp, kind, contents, floor)?;
            let bundle = open(kind.zip, &paths)?;
            if let Ok(found) = bundle.file.metadata() {
                checked.put(&paths.file(kind.zip), &found);
            }
            Ok(bundle)
        };
        self.blocking().run("make a bundle", make).await?
    }

    /// What the bundle for debugging holds. The package of a run that brought its own is removed when the run has ended,
    /// sooner or later: unless it is kept, it is not in the bundle.
    async fn everything(&self, state: &RunState) -> Result<Contents, Error> {
        let run = state.run_id;
        let uploaded = self.uploaded(run).await?;
        let (files, sha256) = uploaded.map(|uploaded| (uploaded.files, uploaded.manifest_sha256)).unzip();
        let list = pretty(&json!({"files": files.unwrap_or_default(), "manifest_sha256": sha256}));
        let data = self.layout().data().to_owned();
        let write = move || {
            let mut file = tempfile::tempfile_in(data)?;
            file.write_all(&list).and_then(|()| file.rewind()).map(|()| file)
        };
        let list = self.blocking().run("make a bundle", write).await?.map_err(Error::io("make a bundle"))?;
        // A copy, because the file in the folder may not be sealed yet, or not be what was logged.
        let log = self.log_copy(run, state.head_seq).await?;
        let added = vec![(INPUT_MANIFEST, list), (RunFile::Events.name(), log)];
        Ok(Contents::Everything { with_skill: !state.temporary || state.options.debug_keep_temp, added })
    }
}

/// The zip that is there. No proof covers it, so one that this process has not made itself, or that was changed since, is none.
fn open_known(bundle: RunFile, paths: &RunPaths, checked: &Checked) -> Result<Option<OpenedBundle>, Error> {
    match open_beneath(&paths.root, Path::new(bundle.name())) {
        Ok(file) if file.metadata().is_ok_and(|found| checked.is_unchanged(&paths.file(bundle), &found)) => {
            Ok(Some(opened(bundle, file)))
        }
        Ok(_) | Err(LookupError::NotFound) => Ok(None),
        Err(error) => Err(broken(bundle, error)),
    }
}

fn open(bundle: RunFile, paths: &RunPaths) -> Result<OpenedBundle, Error> {
    let file = open_beneath(&paths.root, Path::new(bundle.name())).map_err(|error| broken(bundle, error))?;
    Ok(opened(bundle, file))
}

fn opened(bundle: RunFile, file: File) -> OpenedBundle {
    let name = RunFolder::Bundles.strip(bundle.name()).unwrap_or(bundle.name());
    OpenedBundle { name, file }
}

fn broken(bundle: RunFile, error: LookupError) -> Error {
    Error::io(format!("open {}", bundle.name()))(std::io::Error::other(error))
}

/// Makes the zip, and puts it in its place if every file in it is what the run left.
fn make(
    proven: &ProvenRun,
    paths: &RunPaths,
    tmp: &Path,
    kind: Kind,
    contents: Contents,
    floor: u64,
) -> Result<(), Error> {
    let folder = paths.folder(RunFolder::Bundles);
    // Not the run's folder itself: a clean-up may have just removed it.
    files::step("create", &folder)?;
    if let Err(error) = std::fs::create_dir(&folder)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(Error::io(format!("create {}", folder.display()))(error));
    }
    // In the folder that each start empties: nothing stays if this process dies.
    files::create_folder(tmp)?;
    let making = tempfile::Builder::new().prefix("bundle-").tempdir_in(tmp).map_err(Error::io("make a bundle"))?;
    let (zip, list) = (making.path().join("zip"), making.path().join("list"));
    let all = matches!(contents, Contents::Everything { .. });
    let bundle = artifact::bundle(&paths.root, contents, &zip, &list, floor)?;
    compare(proven, &bundle, all)?;
    // The zip last: whoever finds it finds its list.
    for (from, to) in [(list, kind.list), (zip, kind.zip)] {
        let to = paths.file(to);
        files::rename(&from, &to)?;
    }
    Ok(())
}

/// Refuses a bundle whose files are not those that the run left: its artifacts and its result, or all that the proof names.
fn compare(proven: &ProvenRun, bundle: &Bundle, all: bool) -> Result<(), Error> {
    let found: HashMap<&str, &str> =
        bundle.files.iter().map(|file| (file.path.as_str(), file.sha256.as_str())).collect();
    let result = RunFile::Result.name();
    let belongs = |path: &str| all || path == result || RunFolder::Artifacts.strip(path).is_some();
    // The result of an old log, whose proof does not name it, is only looked for.
    let mut expected = HashMap::from([(result.to_owned(), proven.result_sha256().map(str::to_owned))]);
    for (path, (_, sha256)) in proven.all()?.into_iter().filter(|(path, _)| belongs(path)) {
        expected.insert(path, Some(sha256));
    }
    for (path, sha256) in expected {
        match found.get(path.as_str()) {
            Some(found) => proven.compare_copy(&path, found, sha256.as_deref().unwrap_or(found))?,
            None if bundle.is_too_much(&path) => {}
            None => return Err(proven.damaged(&path, "it cannot be read".to_owned())),
        }
    }
    Ok(())
}
