//! Which databases sled holds in memory. It keeps nearly every page that was written or read until the database is
//! closed, so closed generations are loaded when they are read, and only a few at once.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::damage::damaged;
use super::heap;
use crate::store::Error;
use crate::store::patience::with_patience;

/// A database that is loaded when it is needed.
pub(super) struct Loadable {
    folder: PathBuf,
    cache_bytes: u64,
    state: Mutex<State>,
}

enum State {
    Loaded(Arc<sled::Db>),
    /// Who had it when it was unloaded may still have it; it cannot be opened a second time meanwhile.
    Unloaded(Weak<sled::Db>),
    /// Its folder has another name, or is gone.
    Removed,
}

impl Loadable {
    /// Opens the database, creating it if there is none.
    pub(super) fn open(folder: PathBuf, cache_bytes: u64) -> Result<Loadable, Error> {
        let db = open(&folder, cache_bytes)?;
        Ok(Loadable { folder, cache_bytes, state: Mutex::new(State::Loaded(Arc::new(db))) })
    }

    /// The database, and whether it had to be loaded for this.
    fn get(&self) -> Result<(Arc<sled::Db>, bool), Error> {
        let mut state = self.state();
        match &*state {
            State::Loaded(db) => Ok((db.clone(), false)),
            State::Removed => Err(damaged(format!("the removed database {}", self.folder.display()))),
            State::Unloaded(last) => {
                // sled would create what is missing.
                if last.strong_count() == 0 && !self.folder.join("db").is_file() {
                    return Err(damaged(format!("the missing database {}", self.folder.display())));
                }
                let db = match last.upgrade() {
                    Some(db) => db,
                    None => Arc::new(open(&self.folder, self.cache_bytes)?),
                };
                *state = State::Loaded(db.clone());
                Ok((db, true))
            }
        }
    }

    pub(super) fn is_loaded(&self) -> bool {
        matches!(&*self.state(), State::Loaded(_))
    }

    fn unload(&self) {
        let mut state = self.state();
        if let State::Loaded(db) = &*state {
            // The memory comes back when the last reader is done with it.
            let last = Arc::downgrade(db);
            *state = State::Unloaded(last);
        }
    }

    fn remove(&self) {
        *self.state() = State::Removed;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(folder: &std::path::Path, cache_bytes: u64) -> Result<sled::Db, Error> {
    // No periodic flush: the writer flushes each group.
    let config = sled::Config::new().path(folder).cache_capacity(cache_bytes).flush_every_ms(None);
    let failed = |source| Error::Engine { action: "open", source: Arc::new(source) };
    let db = with_patience(|| match config.open() {
        // sled reports this only in its message.
        Err(sled::Error::Io(error)) if error.to_string().starts_with("could not acquire lock") => None,
        result => Some(result.map_err(failed)),
    });
    db.unwrap_or_else(|| Err(Error::Locked { path: folder.to_path_buf() }))
}

/// A number of databases of which only those are loaded that were loaded last.
pub(super) struct LoadedFew {
    most: usize,
    /// The one that is unloaded next comes first.
    loaded: Mutex<VecDeque<Arc<Loadable>>>,
}

impl LoadedFew {
    pub(super) fn new(most: usize) -> LoadedFew {
        LoadedFew { most, loaded: Mutex::default() }
    }

    /// From now on this one is one of the number.
    pub(super) fn add(&self, database: &Arc<Loadable>) {
        if database.is_loaded() {
            self.note(database);
        }
    }

    /// The database, loaded. Another one may be unloaded for it.
    pub(super) fn load(&self, database: &Arc<Loadable>) -> Result<Arc<sled::Db>, Error> {
        let (db, loaded) = database.get()?;
        if loaded {
            self.note(database);
        }
        Ok(db)
    }

    /// Unloads all of them; who needs one next loads it again.
    pub(super) fn unload_all(&self) {
        std::mem::take(&mut *self.list()).iter().for_each(|database| database.unload());
    }

    /// The database's folder is gone. Who reads from it now can go on.
    pub(super) fn remove(&self, database: &Arc<Loadable>) {
        self.list().retain(|other| !Arc::ptr_eq(other, database));
        database.remove();
        heap::give_back_free_memory();
    }

    fn note(&self, database: &Arc<Loadable>) {
        let over: Vec<_> = {
            let mut loaded = self.list();
            loaded.push_back(database.clone());
            let over = loaded.len().saturating_sub(self.most);
            loaded.drain(..over).collect()
        };
        if !over.is_empty() {
            over.iter().for_each(|database| database.unload());
            heap::give_back_free_memory();
        }
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<Arc<Loadable>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A database outside of any number, which stays loaded.
pub(super) fn always_loaded(database: &Loadable) -> Result<Arc<sled::Db>, Error> {
    database.get().map(|(db, _)| db)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(folder: PathBuf, value: &str) -> Arc<Loadable> {
        let database = Loadable::open(folder, 1 << 20).unwrap();
        always_loaded(&database).unwrap().insert("key", value).unwrap();
        always_loaded(&database).unwrap().flush().unwrap();
        Arc::new(database)
    }

    #[test]
    fn of_many_databases_a_few_are_loaded_and_all_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let few = LoadedFew::new(2);
        let all: Vec<_> = (0..5).map(|n| database(dir.path().join(n.to_string()), &format!("{n}"))).collect();
        all.iter().for_each(|database| few.add(database));
        let loaded = || all.iter().map(|database| database.is_loaded()).collect::<Vec<_>>();
        assert_eq!(loaded(), [false, false, false, true, true]);
        for (n, database) in all.iter().enumerate() {
            let value = few.load(database).unwrap().get("key").unwrap().unwrap();
            assert_eq!(value, n.to_string().as_bytes());
        }
        assert_eq!(loaded(), [false, false, false, true, true]);
        few.unload_all();
        assert_eq!(loaded(), [false; 5]);
        assert_eq!(few.load(&all[4]).unwrap().get("key").unwrap().unwrap(), b"4");
        assert_eq!(loaded(), [false, false, false, false, true]);
    }

    #[test]
    fn who_has_a_database_can_read_on_when_it_is_unloaded_and_shares_it_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let few = LoadedFew::new(1);
        let (one, other) = (database(dir.path().join("one"), "1"), database(dir.path().join("other"), "2"));
        few.add(&one);
        let held = few.load(&one).unwrap();
        few.add(&other);
        assert!(!one.is_loaded() && other.is_loaded());
        assert_eq!(held.get("key").unwrap().unwrap(), b"1");
        assert!(Arc::ptr_eq(&held, &few.load(&one).unwrap()));
    }

    #[test]
    fn a_database_that_was_removed_is_not_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let few = LoadedFew::new(1);
        let (one, other) = (database(dir.path().join("one"), "1"), database(dir.path().join("other"), "2"));
        few.remove(&one);
        assert!(few.load(&one).is_err());
        few.add(&other);
        other.unload();
        std::fs::rename(dir.path().join("other"), dir.path().join("elsewhere")).unwrap();
        assert!(few.load(&other).is_err());
        assert!(!dir.path().join("other").exists());
    }
}
