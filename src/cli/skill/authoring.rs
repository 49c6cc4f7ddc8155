//! `skill new` and `skill import`: write complete packages into a folder, or nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::failure::Failure;
use crate::cli::skill::findings;
use crate::cli::terminal::output;
use crate::domain::codes::Exit;
use crate::registry;
use crate::skill::is_id;
use crate::skill::starter::{self, Starter};

pub(crate) fn new(name: &str, kind: Starter, into: &Path) -> Result<(), Failure> {
    if !is_id(name) {
        let rule = "use 1 to 64 of a-z, 0-9 and -, with no - at either end and no --";
        return Err(Failure::Usage(format!("{name:?} is not a valid skill name: {rule}")));
    }
    write(into, &[(name.to_owned(), starter::files(name, kind))])?;
    let dir = into.join(name);
    let shown = shown(&dir);
    let script = match kind {
        Starter::Script => " and scripts/run.py",
        Starter::Prompt => "",
    };
    output::line(&format!(
        "created {shown}; edit SKILL.md{script}, then run\n  skill-runner skill lint {shown}\n  \
         skill-runner run {shown} --input text='to be or not to be'\n  skill-runner skill install {shown}"
    ))
}

/// Writes a package for each skill of an agent.
pub(crate) fn import(agent: &Path, into: &Path) -> Result<(), Failure> {
    if !agent.is_dir() {
        return Err(Failure::Usage(format!("{} is not a folder; name the folder of an agent", agent.display())));
    }
    let made = match registry::load_agent(agent) {
        Ok(made) => made,
        Err(found) => {
            findings::show(&found)?;
            return Err(Failure::Reported(Exit::Refused));
        }
    };
    let packages: Vec<(String, BTreeMap<String, String>)> =
        made.into_iter().map(|package| (package.id, package.files)).collect();
    write(into, &packages)?;
    for (id, _) in &packages {
        output::line(&format!("{} is written", shown(&into.join(id))))?;
    }
    Ok(())
}

/// With a `/` in it, so that `run` takes it for a folder.
fn shown(dir: &Path) -> String {
    let shown = dir.display().to_string();
    if shown.contains('/') { shown } else { format!("./{shown}") }
}

/// Writes all of them or none; an existing folder is never changed.
fn write(into: &Path, packages: &[(String, BTreeMap<String, String>)]) -> Result<(), Failure> {
    if let Some((id, _)) = packages.iter().find(|(id, _)| fs::symlink_metadata(into.join(id)).is_ok()) {
        return Err(Failure::Usage(format!("{} already exists; nothing was written", into.join(id).display())));
    }
    fs::create_dir_all(into).map_err(Failure::broken(format!("create {}", into.display())))?;
    let unfinished = tempfile::Builder::new()
        .prefix(".new-")
        .tempdir_in(into)
        .map_err(Failure::broken(format!("write in {}", into.display())))?;
    for (id, files) in packages {
        for (path, text) in files {
            let path = unfinished.path().join(id).join(path);
            let written = fs::create_dir_all(path.parent().unwrap_or(into)).and_then(|()| fs::write(&path, text));
            written.map_err(Failure::broken(format!("write {}", path.display())))?;
        }
    }
    for (id, _) in packages {
        let to: PathBuf = into.join(id);
        fs::rename(unfinished.path().join(id), &to).map_err(Failure::broken(format!("rename to {}", to.display())))?;
    }
    Ok(())
}
