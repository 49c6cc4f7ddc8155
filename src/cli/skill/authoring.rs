//! `skill new` and `skill import`: write complete packages into a folder, or nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::failure::Failure;
use crate::cli::skill::findings;
use crate::cli::terminal::output;
use crate::domain::codes::Exit;
use crate::registry::{self, Importable};
use crate::skill::agent::AgentPackage;
use crate::skill::is_id;
use crate::skill::starter::{self, Starter};
use crate::workspace::{Archive, UploadLimits};

pub(crate) fn new(name: &str, kind: Starter, into: &Path) -> Result<(), Failure> {
    if !is_id(name) {
        let rule = "use 1 to 64 of a-z, 0-9 and -, with no - at either end and no --";
        return Err(Failure::Usage(format!("{name:?} is not a valid skill name: {rule}")));
    }
    let package = Package { id: name.to_owned(), written: starter::files(name, kind), copied: Default::default() };
    write(into, &[package])?;
    let dir = into.join(name);
    let shown = shown(&dir);
    let script = kind.script().map(|script| format!(" and {script}")).unwrap_or_default();
    output::line(&format!(
        "created {shown}; edit SKILL.md{script}, then run\n  skill-runner skill lint {shown}\n  \
         skill-runner skill test {shown}\n  skill-runner run {shown} {}\n  skill-runner skill install {shown}",
        kind.run_flags()
    ))
}

/// Writes a whole package for each skill of a folder or a zip: those of an agent, or those in the open format.
pub(crate) fn import(source: &Path, into: &Path, limits: &UploadLimits) -> Result<(), Failure> {
    if source.is_file() {
        let unpacked = tempfile::tempdir().map_err(Failure::broken("make a temporary folder"))?;
        // The name of a zip's only folder is the skill's; a zip without one is named like its file.
        let name = source.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = unpacked.path().join(name);
        fs::create_dir(&folder).map_err(Failure::broken("make a temporary folder"))?;
        Archive::open(source, limits)
            .and_then(|archive| archive.unpack(&folder))
            .map_err(|error| Failure::refused(error.code(), error.to_string()))?;
        return import_folder(&folder, into);
    }
    if !source.exists() {
        return Err(Failure::Usage(format!(
            "{} does not exist; name the folder of a skill, of several, or of an agent, or a zip",
            source.display()
        )));
    }
    if !source.is_dir() {
        return Err(Failure::Usage(format!(
            "{} is neither a folder nor a zip; name the folder of a skill, of several, or of an agent",
            source.display()
        )));
    }
    import_folder(source, into)
}

fn import_folder(source: &Path, into: &Path) -> Result<(), Failure> {
    let made = if registry::is_agent(source) {
        registry::load_agent(source).map(|made| made.into_iter().map(Package::from).collect())
    } else {
        registry::importable(source).map(|found| found.into_iter().map(Package::from).collect())
    };
    let packages: Vec<Package> = match made {
        Ok(made) => made,
        Err(found) => {
            findings::show(&found)?;
            return Err(Failure::Reported(Exit::Refused));
        }
    };
    write(into, &packages)?;
    for package in &packages {
        output::line(&format!("{} is written", shown(&into.join(&package.id))))?;
    }
    match packages.first() {
        Some(package) => {
            let folder = shown(&into.join(&package.id));
            output::line(&format!("refine the schemas in assets/, then run\n  skill-runner skill lint {folder}"))
        }
        None => Ok(()),
    }
}

/// A package to be written.
struct Package {
    id: String,
    /// Files that are written: path and text.
    written: BTreeMap<String, String>,
    /// Files that are copied, and the folder they are in.
    copied: (PathBuf, Vec<String>),
}

impl From<AgentPackage> for Package {
    fn from(made: AgentPackage) -> Self {
        Self { id: made.id, written: made.files, copied: Default::default() }
    }
}

impl From<Importable> for Package {
    fn from(found: Importable) -> Self {
        Self { id: found.id, written: found.written, copied: (found.dir, found.copied) }
    }
}

/// With a `/` in it, so that `run` takes it for a folder.
fn shown(dir: &Path) -> String {
    let shown = dir.display().to_string();
    if shown.contains('/') { shown } else { format!("./{shown}") }
}

/// Writes all of them or none; an existing folder is never changed.
fn write(into: &Path, packages: &[Package]) -> Result<(), Failure> {
    if let Some(there) = packages.iter().find(|package| fs::symlink_metadata(into.join(&package.id)).is_ok()) {
        return Err(Failure::Usage(format!("{} already exists; nothing was written", into.join(&there.id).display())));
    }
    fs::create_dir_all(into).map_err(Failure::broken(format!("create {}", into.display())))?;
    let unfinished = tempfile::Builder::new()
        .prefix(".new-")
        .tempdir_in(into)
        .map_err(Failure::broken(format!("write in {}", into.display())))?;
    for Package { id, written, copied: (from, copied) } in packages {
        let folder = unfinished.path().join(id);
        let place = |path: &String| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap_or(into)).map(|()| path)
        };
        for path in copied {
            let done = place(path).and_then(|to| fs::copy(from.join(path), to));
            done.map_err(Failure::broken(format!("copy {}", from.join(path).display())))?;
        }
        for (path, text) in written {
            let done = place(path).and_then(|to| fs::write(to, text));
            done.map_err(Failure::broken(format!("write {}", folder.join(path).display())))?;
        }
    }
    for package in packages {
        let to: PathBuf = into.join(&package.id);
        let from = unfinished.path().join(&package.id);
        fs::rename(from, &to).map_err(Failure::broken(format!("rename to {}", to.display())))?;
    }
    Ok(())
}
