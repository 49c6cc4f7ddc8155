//! Another store for a data folder: made in a folder beside the old one, and put in its place by steps that can be repeated.
//!
//! Until the last step the folder says that it is being moved, so that no store is opened on half of it.

use std::path::{Path, PathBuf};

use super::Error;
use super::claim::Claim;
use crate::files;

/// What `FORMAT` says meanwhile; whoever opens the folder is shown this text.
const MOVING: &str = "moving to another store: call skill-runner migrate again";

/// What belongs to a store, in its data folder.
const STORE: &str = "store";
const FORMAT: &str = "FORMAT";

/// The places of an exchange.
pub(crate) struct Switch {
    data: PathBuf,
    /// As a data folder, with the new store.
    new: PathBuf,
    /// Where the old one is kept.
    old: PathBuf,
}

impl Switch {
    pub(crate) fn new(data: &Path, new: &Path, old: &Path) -> Switch {
        Switch { data: data.to_owned(), new: new.to_owned(), old: old.to_owned() }
    }

    /// Whether an exchange has begun, and is not complete.
    pub(crate) fn has_begun(&self) -> Result<bool, Error> {
        let found = files::read_optional(&self.data.join(FORMAT))?;
        Ok(found.is_some_and(|text| String::from_utf8_lossy(&text).trim() == MOVING))
    }

    /// Begins the exchange; from now on nobody can open the old store. To be called while the old one is held.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        files::create_private_folder(&self.old)?;
        let format = files::read_optional(&self.data.join(FORMAT))?.unwrap_or_default();
        files::write_durably(&self.old.join(FORMAT), &format)?;
        files::sync(&self.data)?;
        Ok(files::write_durably(&self.data.join(FORMAT), format!("{MOVING}\n").as_bytes())?)
    }

    /// Completes an exchange that has begun, when nobody has either store open. May be repeated, whatever cut it short.
    pub(crate) fn complete(&self) -> Result<(), Error> {
        let _claim = Claim::take(&self.data)?;
        if !self.has_begun()? {
            return Ok(());
        }
        let [here, old, new] = [&self.data, &self.old, &self.new].map(|folder| folder.join(STORE));
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        if is_there(&new) {
            if is_there(&here) && !is_there(&old) {
                files::rename(&here, &old)?;
                files::sync(&self.old)?;
            }
            files::rename(&new, &here)?;
        }
        [&self.new, &self.data].into_iter().try_for_each(|folder| files::sync(folder))?;
        let format = self.new.join(FORMAT);
        let text = files::read_optional(&format)?;
        let text =
            text.ok_or_else(|| Error::CorruptFile { path: format, reason: "it is not there any more".to_owned() })?;
        files::write_durably(&self.data.join(FORMAT), &text)?;
        files::remove_tree(&self.new)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::rc::Rc;

    use super::*;

    fn write(folder: &Path, format: &str, store: &str) {
        fs::create_dir_all(folder.join(STORE)).unwrap();
        fs::write(folder.join(STORE).join("what"), store).unwrap();
        fs::write(folder.join(FORMAT), format).unwrap();
    }

    fn read(folder: &Path) -> [String; 2] {
        [folder.join(FORMAT), folder.join(STORE).join("what")].map(|path| fs::read_to_string(path).unwrap_or_default())
    }

    #[test]
    fn an_exchange_that_was_cut_short_anywhere_is_completed() {
        for cut in 0..=2 {
            let dir = tempfile::tempdir().unwrap();
            let (data, new, old) = (dir.path(), dir.path().join("new"), dir.path().join("old"));
            write(data, "sled 2\n", "old");
            write(&new, "other 1\n", "new");
            let switch = Switch::new(data, &new, &old);
            assert!(!switch.has_begun().unwrap());
            switch.complete().unwrap();
            assert_eq!(read(data), ["sled 2\n", "old"], "nothing has begun");
            switch.begin().unwrap();
            // As a process left it that was killed after so many steps.
            if cut > 0 {
                fs::rename(data.join(STORE), old.join(STORE)).unwrap();
            }
            if cut > 1 {
                fs::rename(new.join(STORE), data.join(STORE)).unwrap();
            }
            assert!(switch.has_begun().unwrap());
            switch.complete().unwrap();
            switch.complete().unwrap();
            assert_eq!(read(data), ["other 1\n", "new"], "cut {cut}");
            assert_eq!(read(&old), ["sled 2\n", "old"], "cut {cut}");
            assert!(!new.exists() && !switch.has_begun().unwrap());
        }
    }

    #[test]
    fn the_folder_for_the_old_store_is_on_the_disk_before_the_folder_says_that_it_is_being_moved() {
        let dir = tempfile::tempdir().unwrap();
        let (data, old) = (dir.path(), dir.path().join("old"));
        write(data, "sled 2\n", "old");
        let steps: Rc<RefCell<Vec<(&str, PathBuf)>>> = Rc::default();
        let seen = steps.clone();
        let see = move |action, path: &Path| {
            seen.borrow_mut().push((action, path.to_owned()));
            Ok(())
        };
        files::stepwise(Rc::new(see), || Switch::new(data, &data.join("new"), &old).begin()).unwrap();
        let steps = steps.borrow();
        let at = |action: &str, path: &Path| steps.iter().position(|step| *step == (action, path.to_owned())).unwrap();
        let kept = at("rename to", &old.join(FORMAT));
        let told = at("rename to", &data.join(FORMAT));
        assert!(kept < at("sync", data) && at("sync", data) < told, "{steps:?}");
    }

    #[test]
    fn no_store_opens_on_a_folder_that_is_being_moved() {
        let dir = tempfile::tempdir().unwrap();
        drop(crate::store::SledStore::open(dir.path(), |_| {}).unwrap());
        let switch = Switch::new(dir.path(), &dir.path().join("new"), &dir.path().join("old"));
        switch.begin().unwrap();
        let refused = crate::store::SledStore::open(dir.path(), |_| {}).map(drop).unwrap_err();
        assert!(refused.to_string().contains("call skill-runner migrate again"), "{refused}");
    }
}
