//! A way below a folder that somebody else writes to.

use std::fs;
use std::io;
use std::path::Path;

use super::error::Error;
use super::remove::remove_tree;

/// Removes what stands in the place of a folder on this way: by a link there, what is done at its end would be done anywhere on the
/// machine. The first folder is taken as it is. To be called when nobody else writes there.
pub(crate) fn clear_way(root: &Path, way: &Path) -> Result<(), Error> {
    let mut folder = root.to_owned();
    for part in way {
        folder.push(part);
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                tracing::warn!(path = %folder.display(), "something else is in the place of a folder of the runner; removing it");
                return remove_tree(&folder).map(drop);
            }
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::on("look at", &folder)(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_no_folder_on_the_way_is_removed_and_what_it_leads_to_stays() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        fs::create_dir_all(at("outside/b/c")).unwrap();
        fs::create_dir_all(at("root/a")).unwrap();
        symlink(at("outside/b"), at("root/a/b")).unwrap();
        fs::write(at("root/file"), "").unwrap();
        for way in ["a/b/c", "file/x", "a", "not/there"] {
            clear_way(&at("root"), Path::new(way)).unwrap();
        }
        let there = |path: &str| at(path).symlink_metadata().is_ok();
        assert!(there("outside/b/c") && there("root/a") && !there("root/a/b") && !there("root/file"));
    }
}
