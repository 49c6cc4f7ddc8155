//! A folder rid of everything but what is named.

use std::fs;
use std::path::Path;

use crate::files::{self, Error};

/// Removes everything below a folder that these paths neither name nor lead to; `*` in a path stands for one folder of any
/// name. Links are not followed. Blocks.
pub(crate) fn keep_only(folder: &Path, kept: &[&str]) -> Result<(), Error> {
    let kept: Vec<Vec<&str>> = kept.iter().map(|path| path.split('/').collect()).collect();
    prune(folder, &kept.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn prune(folder: &Path, kept: &[&[&str]]) -> Result<(), Error> {
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).and_then(Iterator::collect);
    for entry in entries.map_err(Error::on("read", folder))? {
        let (name, path) = (entry.file_name(), entry.path());
        let below: Vec<&[&str]> = kept
            .iter()
            .filter_map(|parts| parts.split_first())
            .filter(|(first, _)| **first == "*" || name == **first)
            .map(|(_, rest)| rest)
            .collect();
        if below.iter().any(|rest| rest.is_empty()) {
            continue;
        }
        let is_folder = entry.file_type().map_err(Error::on("look at", &path))?.is_dir();
        if below.is_empty() || !is_folder {
            files::remove_tree(&path)?;
            continue;
        }
        // Whatever was done to it, it is ours.
        files::set_mode(&path, 0o700)?;
        prune(&path, &below)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_is_named_stays_with_all_below_it_and_everything_else_goes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for file in ["a/one/chats/x/y", "a/two/chats/z", "a/two/bin/rg", "a/settings", "b/c", ".profile", "d/e"] {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "").unwrap();
        }
        symlink(at("b"), at("a/linked")).unwrap();
        symlink(at("b"), at("d/kept")).unwrap();
        fs::set_permissions(at("a/two"), fs::Permissions::from_mode(0o000)).unwrap();
        keep_only(folder.path(), &["a/*/chats", "d/kept", "not/there"]).unwrap();
        assert_eq!(at("a/two").metadata().unwrap().permissions().mode() & 0o777, 0o700, "also for who is not root");
        let there = |path: &str| at(path).symlink_metadata().is_ok();
        for kept in ["a/one/chats/x/y", "a/two/chats/z", "d/kept"] {
            assert!(there(kept), "{kept}");
        }
        for gone in ["a/two/bin", "a/settings", "a/linked", "b", ".profile", "d/e"] {
            assert!(!there(gone), "{gone}");
        }
    }
}
