//! The data directory: claimed by one process, marked with its format.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::files;
use crate::store::Error;
pub(super) use crate::store::claim::Claim;

/// What `FORMAT` says for this layout. A change that an older program would misread takes the next number.
const FORMAT: &str = "sled 2";
/// One sled database for everything, its files directly in the store's folder.
const FORMAT_1: &str = "sled 1";

/// Takes the directory for this process, creating it if needed, and checks its format; an older one becomes this one.
pub(super) fn claim(data_dir: &Path) -> Result<Claim, Error> {
    let claim = Claim::take(data_dir)?;
    check_format(data_dir)?;
    let store = store_dir(data_dir);
    fs::create_dir_all(&store).map_err(Error::io("create", &store))?;
    // The store's own entry, and the one of the data directory in its parent.
    files::sync(data_dir)?;
    let data_dir = data_dir.canonicalize().map_err(Error::io("find", data_dir))?;
    data_dir.parent().map_or(Ok(()), files::sync)?;
    Ok(claim)
}

/// Where the databases are.
pub(super) fn store_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("store")
}

/// The folder of a generation.
pub(super) fn generation_dir(store_dir: &Path, number: u64) -> PathBuf {
    store_dir.join(format!("generation-{number}"))
}

/// The folder of the database of finished rows.
pub(super) fn index_dir(store_dir: &Path, number: u64) -> PathBuf {
    store_dir.join(format!("index-{number}"))
}

fn check_format(data_dir: &Path) -> Result<(), Error> {
    let path = data_dir.join("FORMAT");
    let found: String = match files::read_followed(&path) {
        Ok(text) => String::from_utf8_lossy(&text).trim().chars().take(80).collect(),
        // A store without the file is not ours: the file is written before the store.
        Err(error) if error.kind() == ErrorKind::NotFound && store_dir(data_dir).exists() => "nothing".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return write_format(&path),
        Err(error) => return Err(Error::io("read", &path)(error)),
    };
    match found.as_str() {
        FORMAT => Ok(()),
        FORMAT_1 => {
            adopt_first_format(&store_dir(data_dir))?;
            write_format(&path)
        }
        _ => Err(Error::Format { path, found, expected: FORMAT }),
    }
}

/// The one database becomes generation 0, which is emptied like every other. Whatever a crash leaves of this, doing it
/// again completes it.
fn adopt_first_format(store_dir: &Path) -> Result<(), Error> {
    let (moving, whole) = (store_dir.join("moving"), generation_dir(store_dir, 0));
    if !store_dir.exists() || whole.exists() {
        return Ok(());
    }
    fs::create_dir_all(&moving).map_err(Error::io("create", &moving))?;
    for entry in fs::read_dir(store_dir).map_err(Error::io("list", store_dir))? {
        let path = entry.map_err(Error::io("list", store_dir))?.path();
        if let Some(name) = path.file_name().filter(|_| path != moving) {
            fs::rename(&path, moving.join(name)).map_err(Error::io("move", &path))?;
        }
    }
    files::sync(&moving)?;
    files::sync(store_dir)?;
    fs::rename(&moving, &whole).map_err(Error::io("rename to", &whole))?;
    Ok(files::sync(store_dir)?)
}

fn write_format(path: &Path) -> Result<(), Error> {
    Ok(files::write_durably(path, format!("{FORMAT}\n").as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(dir: &Path) -> String {
        match claim(dir) {
            Err(Error::Format { found, .. }) => found,
            Err(other) => other.to_string(),
            Ok(_) => "opened".to_owned(),
        }
    }

    #[test]
    fn a_store_without_format_and_a_format_from_the_future_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(said(dir.path()), "opened");
        assert_eq!(fs::read_to_string(dir.path().join("FORMAT")).unwrap(), "sled 2\n");
        assert_eq!(said(dir.path()), "opened");

        fs::write(dir.path().join("FORMAT"), "sled 3\n").unwrap();
        assert_eq!(said(dir.path()), "sled 3");
        fs::remove_file(dir.path().join("FORMAT")).unwrap();
        assert_eq!(said(dir.path()), "nothing");
    }

    #[test]
    fn a_pipe_in_the_place_of_the_format_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("FORMAT");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let refused = said(dir.path());
        assert!(refused.contains("FORMAT"), "{refused}");
    }

    #[test]
    fn a_store_of_the_first_format_becomes_a_generation_wherever_the_move_was_cut_short() {
        let old = ["db", "conf", "snap.0000000000001234"];
        for cut in 0..=old.len() + 2 {
            let dir = tempfile::tempdir().unwrap();
            let store = store_dir(dir.path());
            fs::create_dir_all(store.join("blobs")).unwrap();
            old.iter().for_each(|name| fs::write(store.join(name), name).unwrap());
            fs::write(dir.path().join("FORMAT"), "sled 1\n").unwrap();
            // As a process left it that was killed after so many steps.
            if cut > 0 {
                fs::create_dir(store.join("moving")).unwrap();
            }
            old.iter().take(cut.saturating_sub(1)).for_each(|name| {
                fs::rename(store.join(name), store.join("moving").join(name)).unwrap();
            });
            if cut == old.len() + 2 {
                fs::rename(store.join("blobs"), store.join("moving/blobs")).unwrap();
                fs::rename(store.join("moving"), generation_dir(&store, 0)).unwrap();
            }
            assert_eq!(said(dir.path()), "opened");
            let names = |dir: &Path| {
                let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
                let mut names: Vec<_> = entries.collect();
                names.sort_unstable();
                names
            };
            assert_eq!(names(&store), ["generation-0"], "cut {cut}");
            assert_eq!(names(&generation_dir(&store, 0)), ["blobs", "conf", "db", old[2]], "cut {cut}");
            assert_eq!(fs::read_to_string(dir.path().join("FORMAT")).unwrap(), "sled 2\n");
        }
    }
}
