//! Tells the data folder and the home of the engines from folders of others, which must not be touched.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::Path;

use super::layout::{NEW_STORE, OLD_STORE};
use crate::{engine, files};

/// What a data folder has from its first start on: the kind of its store and a number.
const FORMAT: &str = "FORMAT";
const FORMAT_BYTES: u64 = 80;

/// What may be in a data folder before that: by other commands, by a start or a move to another store that was killed, by a backup.
const OF_DATA: [&str; 29] = [
    FORMAT,
    "LOCK",
    "agent-home",
    "backup.json",
    "builtin-skills",
    "cached",
    "damage.json",
    "engines",
    "environments",
    "homes",
    "installs",
    "logs",
    NEW_STORE,
    "npm",
    OLD_STORE,
    "requests",
    "results",
    "runs",
    "sealed",
    "service.json",
    "sessions.json",
    "signing-key",
    "skill-copies",
    "store",
    "tmp",
    "tokens-moved.json",
    "tokens.json",
    "tokens.lock",
    "verify.json",
];
/// What is in folders that count as empty: of a file system, and of git, which keeps no empty folders.
const OF_NOBODY: [&str; 3] = ["lost+found", ".gitkeep", ".gitignore"];

/// Something by which the folder is not a data folder; nothing if it is one, or is empty or missing.
pub(crate) fn foreign_to_data(folder: &Path) -> io::Result<Option<OsString>> {
    if has_format(folder) {
        return Ok(None);
    }
    let mut foreign = entries(folder)?.filter(|name| name.as_ref().map_or(true, |name| !is_one_of(name, &OF_DATA)));
    foreign.next().transpose()
}

/// The same for the home of the engines: it has a folder for one of them, or nothing.
pub(crate) fn foreign_to_agent_home(folder: &Path) -> io::Result<Option<OsString>> {
    let mut first = None;
    for name in entries(folder)? {
        let name = name?;
        if engine::adapters().any(|adapter| name == adapter.engine.as_str()) {
            return Ok(None);
        }
        first.get_or_insert(name);
    }
    Ok(first)
}

fn has_format(folder: &Path) -> bool {
    let mut text = String::new();
    let file = files::open_followed(&folder.join(FORMAT));
    let read = file.and_then(|file| file.take(FORMAT_BYTES).read_to_string(&mut text));
    let is_kind = |kind: &str| kind.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_format = |(kind, number): (&str, &str)| is_kind(kind) && number.parse::<u32>().is_ok();
    read.is_ok() && text.trim().split_once(' ').is_some_and(is_format)
}

/// The names in a folder that belong to somebody.
fn entries(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
    let listed = match folder.read_dir() {
        Ok(listed) => Some(listed),
        // Told of where the folder is made.
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => None,
        Err(error) => return Err(error),
    };
    let names = listed.into_iter().flatten().map(|entry| entry.map(|entry| entry.file_name()));
    Ok(names.filter(|name| name.as_ref().map_or(true, |name| !is_one_of(name, &OF_NOBODY))))
}

fn is_one_of(name: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|one| name == *one)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_data_folder_is_known_by_its_format_or_by_having_nothing_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = || foreign_to_data(folder.path()).unwrap().map(|name| name.into_string().unwrap());
        let make = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(foreign_to_data(&folder.path().join("missing")).unwrap(), None);
        assert_eq!(foreign(), None, "it is empty");
        for ours in OF_DATA.iter().chain(&OF_NOBODY).filter(|name| **name != FORMAT) {
            make(ours, "");
        }
        assert_eq!(foreign(), None);
        make("bin", "");
        assert_eq!(foreign().as_deref(), Some("bin"));
        for others in ["of something else", "sled", "Sled 1", "sled one", "1", ""] {
            make(FORMAT, others);
            assert_eq!(foreign().as_deref(), Some("bin"), "{others}");
        }
        for ours in ["sled 1\n", "sled 2\n", "other 10\n"] {
            make(FORMAT, ours);
            assert_eq!(foreign(), None, "whatever else the operator keeps in it");
        }
    }

    #[test]
    fn the_home_of_the_engines_has_a_folder_of_one_of_them_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = || foreign_to_agent_home(folder.path()).unwrap().map(|name| name.into_string().unwrap());
        assert_eq!(foreign(), None);
        fs::write(folder.path().join(".bashrc"), "").unwrap();
        assert_eq!(foreign().as_deref(), Some(".bashrc"));
        fs::create_dir(folder.path().join("codex")).unwrap();
        assert_eq!(foreign(), None);
    }

    /// A folder that is not known here would keep a service that was killed at its first start from starting again.
    #[test]
    fn every_name_of_the_layout_is_known() {
        let layout = crate::workspace::Layout::new("data");
        for path in layout.folders().into_iter().chain([layout.signing_key(), layout.tokens(), layout.sessions()]) {
            let name = path.strip_prefix("data").unwrap().to_str().unwrap().to_owned();
            assert!(OF_DATA.contains(&&*name), "{name}");
        }
    }
}
