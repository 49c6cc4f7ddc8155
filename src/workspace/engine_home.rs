//! The home of an engine for one run: its sessions are the run's own, logins and settings are links to the operator's.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::keep_only::keep_only;
use crate::bounded;
use crate::engine::SharedHome;
use crate::files::{self, Error};

/// Longest login that is written back.
const LOGIN_MAX: u64 = 1024 * 1024;

/// Where a run in a sandbox has its own copies of what is the operator's, below its home.
pub(crate) const COPIES: &str = ".caches";

/// Logins are written back one at a time.
static WRITING_BACK: Mutex<()> = Mutex::new(());

/// The home of one run.
#[derive(Debug, Clone)]
pub(crate) struct EngineHome {
    /// The run's own folder.
    own: PathBuf,
    /// The operator's folder for this engine; an absolute path.
    operators: PathBuf,
    shared: SharedHome,
}

impl EngineHome {
    pub(crate) fn new(own: PathBuf, operators: &Path, shared: SharedHome) -> Self {
        let operators = std::path::absolute(operators).unwrap_or_else(|_| operators.to_owned());
        Self { own, operators, shared }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.own
    }

    /// Makes it ready for a turn. Of what earlier turns left, their sessions stay. Blocks.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        files::create_private_folder(&self.operators)?;
        for cache in self.shared.caches {
            files::create_private_folder(&self.operators.join(cache))?;
        }
        files::create_private_folder(&self.own)?;
        self.write_back_logins()?;
        let kept: Vec<&str> = self.shared.sessions.iter().copied().chain(self.linked()).collect();
        keep_only(&self.own, &kept)?;
        self.restore_links()
    }

    /// To be called when no process of a turn is left: a login that the engine has refreshed is written back, and whatever it put
    /// in the place of a link is removed, because it may hold a key; so are copies of settings. Blocks.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        if !self.own.exists() {
            return Ok(());
        }
        for copied in self.shared.settings.iter().filter(|path| self.shared.caches.contains(path)) {
            let copy = Path::new(COPIES).join(copied);
            files::clear_way(&self.own, files::parent(&copy))?;
            files::remove_tree(&self.own.join(copy))?;
        }
        self.write_back_logins()?;
        self.restore_links()
    }

    fn write_back_logins(&self) -> Result<(), Error> {
        self.shared.logins.iter().try_for_each(|login| self.write_back(login))
    }

    /// Everything that is a link, where the operator has it.
    fn linked(&self) -> impl Iterator<Item = &'static str> {
        self.shared.logins.iter().copied().chain(self.shared.links())
    }

    fn restore_links(&self) -> Result<(), Error> {
        self.linked().try_for_each(|path| self.link(path))
    }

    /// Makes a link to the operator's entry, if there is one.
    fn link(&self, path: &str) -> Result<(), Error> {
        files::clear_way(&self.own, files::parent(Path::new(path)))?;
        let (target, link) = (self.operators.join(path), self.own.join(path));
        if !target.exists() {
            // What a turn put there, and a link to what the operator has removed.
            return files::remove_tree(&link).map(drop);
        }
        if fs::read_link(&link).is_ok_and(|found| found == target) {
            return Ok(());
        }
        files::remove_tree(&link)?;
        if let Some(folder) = link.parent() {
            files::create_private_folder(folder)?;
        }
        files::link_to(&target, &link)
    }

    /// Engines that write a file whole put it in the place of the link; others write through it.
    fn write_back(&self, login: &str) -> Result<(), Error> {
        let (target, found) = (self.operators.join(login), self.own.join(login));
        let Ok(refreshed) = fs::symlink_metadata(&found) else { return Ok(()) };
        // What was no login before is none of the operator's.
        let Ok(known) = fs::metadata(&target) else { return Ok(()) };
        if !refreshed.is_file() {
            return Ok(());
        }
        let _alone = WRITING_BACK.lock().unwrap_or_else(PoisonError::into_inner);
        let modified = |metadata: &fs::Metadata| metadata.modified().map_err(Error::on("look at", &found));
        if modified(&refreshed)? < modified(&known)? {
            // Another run has refreshed it later.
            return Ok(());
        }
        let read = files::read_beneath(&self.own, Path::new(login), LOGIN_MAX).ok().flatten();
        let before = files::read_followed(&target).map_err(Error::on("read", &target))?;
        match read {
            Some(bytes) if is_like(&bytes, &before) => files::write_private_durably(&target, &bytes),
            Some(_) | None => {
                tracing::warn!(path = %target.display(), "an engine left a login that cannot be read; the former one stays");
                Ok(())
            }
        }
    }
}

/// Whether a login may take the place of another: it is not empty, and JSON if the other is.
fn is_like(new: &[u8], old: &[u8]) -> bool {
    let is_object = |bytes: &[u8]| bounded::json::from_slice::<Value>(bytes).is_ok_and(|value| value.is_object());
    !new.trim_ascii().is_empty() && (is_object(new) || !is_object(old))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, SystemTime};

    use super::*;

    const SHARED: SharedHome = SharedHome {
        logins: &["cfg/login.json", "cfg/other.json"],
        settings: &["cfg/settings.json", "cfg/skills"],
        caches: &["cache"],
        sessions: &["cfg/session", "projects/*/chats"],
    };

    struct Place {
        folder: tempfile::TempDir,
        home: EngineHome,
    }

    impl Place {
        fn new() -> Place {
            let folder = tempfile::tempdir().unwrap();
            let home = EngineHome::new(folder.path().join("homes/run"), &folder.path().join("operator"), SHARED);
            fs::create_dir_all(folder.path().join("operator/cfg/skills")).unwrap();
            let place = Place { folder, home };
            place.write("operator/cfg/login.json", r#"{"token":"old"}"#);
            place.write("operator/cfg/settings.json", "{}");
            place
        }

        fn at(&self, path: &str) -> PathBuf {
            self.folder.path().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            fs::write(self.at(path), text).unwrap();
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.at(path)).unwrap()
        }

        /// Puts a file in the place of a link, as programs do that write a file whole.
        fn replace(&self, path: &str, text: &str) {
            self.write("new", text);
            fs::rename(self.at("new"), self.at(path)).unwrap();
        }
    }

    #[test]
    fn the_homes_of_the_operator_and_of_the_run_are_made_for_their_user_alone() {
        for caches in [&[][..], &["cache"]] {
            let folder = tempfile::tempdir().unwrap();
            let home = |name: &str| folder.path().join(name);
            EngineHome::new(home("run"), &home("operator"), SharedHome { caches, ..SHARED }).prepare().unwrap();
            for made in ["run", "operator"].map(home).into_iter().chain(caches.iter().map(|c| home("operator").join(c)))
            {
                assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700, "{}", made.display());
            }
        }
    }

    #[test]
    fn copies_of_settings_go_with_the_turn_and_caches_before_the_next() {
        let shared = SharedHome { settings: &["config"], caches: &["config", "cache"], ..SHARED };
        let place = Place::new();
        let home = EngineHome::new(place.at("homes/run"), &place.at("operator"), shared);
        home.prepare().unwrap();
        for copy in ["config", "cache"] {
            fs::create_dir_all(place.at("homes/run").join(COPIES).join(copy)).unwrap();
            place.write(&format!("homes/run/{COPIES}/{copy}/file"), "a key");
        }
        home.settle().unwrap();
        assert!(!place.at("homes/run").join(COPIES).join("config").exists());
        assert!(place.at("homes/run").join(COPIES).join("cache/file").exists());
        home.prepare().unwrap();
        assert!(!place.at("homes/run").join(COPIES).exists(), "the next turn begins without it");
    }

    #[test]
    fn a_folder_of_the_home_that_a_turn_replaced_by_a_link_leads_nowhere() {
        let shared =
            SharedHome { settings: &["cfg/settings.json", "cfg/skills", "config"], caches: &["config"], ..SHARED };
        let place = Place::new();
        let home = EngineHome::new(place.at("homes/run"), &place.at("operator"), shared);
        home.prepare().unwrap();
        let files = ["login.json", "other.json", "settings.json", "skills/one", "config/file", "session"];
        for file in files {
            fs::create_dir_all(place.at("outside").join(file).parent().unwrap()).unwrap();
            place.write(&format!("outside/{file}"), "not the run's");
        }
        for folder in ["cfg", COPIES] {
            let folder = place.at("homes/run").join(folder);
            files::remove_tree(&folder).unwrap();
            symlink(place.at("outside"), folder).unwrap();
        }
        // When the turn is over, and when the next begins.
        for put_in_order in [EngineHome::settle, EngineHome::prepare] {
            put_in_order(&home).unwrap();
            for file in files {
                let path = place.at("outside").join(file);
                assert!(path.symlink_metadata().is_ok_and(|found| found.is_file()), "{file}");
                assert_eq!(fs::read_to_string(path).unwrap(), "not the run's");
            }
            assert_eq!(place.read("homes/run/cfg/login.json"), r#"{"token":"old"}"#);
            assert!(fs::read_dir(place.at("outside")).unwrap().count() == files.len(), "nothing was put there");
        }
    }

    #[test]
    fn nothing_that_a_turn_leaves_is_there_in_the_next_but_its_session() {
        let place = Place::new();
        place.home.prepare().unwrap();
        for folder in ["cfg/hooks", "projects/x/chats", "projects/x/bin"] {
            fs::create_dir_all(place.at("homes/run").join(folder)).unwrap();
        }
        let planted =
            ["cfg/other.json", "cfg/hooks/start.sh", ".profile", "projects/x/bin/rg", "projects/settings.json"];
        let kept = ["cfg/session", "projects/x/chats/1.jsonl"];
        planted.iter().chain(&kept).for_each(|path| place.write(&format!("homes/run/{path}"), "left"));
        place.replace("homes/run/cfg/settings.json", r#"{"hook":"planted"}"#);
        place.home.settle().unwrap();
        place.home.prepare().unwrap();
        planted.iter().for_each(|path| assert!(!place.at("homes/run").join(path).exists(), "{path}"));
        kept.iter().for_each(|path| assert_eq!(place.read(&format!("homes/run/{path}")), "left"));
        assert_eq!(place.read("homes/run/cfg/settings.json"), "{}");
        assert!(place.at("homes/run/cfg/login.json").is_symlink());
    }

    #[test]
    fn logins_settings_and_caches_are_links_and_everything_else_is_the_runs_own() {
        let place = Place::new();
        place.home.prepare().unwrap();
        for path in ["cfg/login.json", "cfg/settings.json", "cfg/skills", "cache"] {
            let link = fs::read_link(place.at("homes/run").join(path)).unwrap();
            assert_eq!(link, place.at("operator").join(path), "{path}");
        }
        assert!(!place.at("homes/run/cfg/other.json").is_symlink(), "there is no such login");
        assert_eq!(fs::metadata(place.at("homes/run")).unwrap().permissions().mode() & 0o777, 0o700);
        place.write("homes/run/cfg/session", "words");
        place.home.settle().unwrap();
        place.home.prepare().unwrap();
        assert_eq!(place.read("homes/run/cfg/session"), "words");
        assert!(!place.at("operator/cfg/session").exists());
    }

    #[test]
    fn a_login_that_the_engine_replaced_is_written_back_for_its_owner_alone_and_linked_again() {
        let place = Place::new();
        place.home.prepare().unwrap();
        place.replace("homes/run/cfg/login.json", r#"{"token":"new"}"#);
        place.home.settle().unwrap();
        assert_eq!(place.read("operator/cfg/login.json"), r#"{"token":"new"}"#);
        assert_eq!(fs::metadata(place.at("operator/cfg/login.json")).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(place.at("homes/run/cfg/login.json").is_symlink());
        // Others write through the link.
        place.write("homes/run/cfg/login.json", r#"{"token":"newer"}"#);
        place.home.settle().unwrap();
        assert_eq!(place.read("operator/cfg/login.json"), r#"{"token":"newer"}"#);
    }

    #[test]
    fn a_login_that_is_broken_or_older_than_anothers_is_not_written_back() {
        for broken in ["", "  \n", "{\"token\":", "[]"] {
            let place = Place::new();
            place.home.prepare().unwrap();
            place.replace("homes/run/cfg/login.json", broken);
            place.home.settle().unwrap();
            assert_eq!(place.read("operator/cfg/login.json"), r#"{"token":"old"}"#, "{broken:?}");
        }
        let place = Place::new();
        place.home.prepare().unwrap();
        place.replace("homes/run/cfg/login.json", r#"{"token":"late"}"#);
        place.write("operator/cfg/login.json", r#"{"token":"later"}"#);
        let operators = fs::File::options().write(true).open(place.at("operator/cfg/login.json")).unwrap();
        operators.set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
        place.home.settle().unwrap();
        assert_eq!(place.read("operator/cfg/login.json"), r#"{"token":"later"}"#);
        assert_eq!(place.read("homes/run/cfg/login.json"), r#"{"token":"later"}"#);
    }

    #[test]
    fn a_run_makes_no_login_and_changes_no_settings_of_the_operator() {
        let place = Place::new();
        place.home.prepare().unwrap();
        place.write("homes/run/cfg/other.json", r#"{"token":"planted"}"#);
        place.replace("homes/run/cfg/settings.json", r#"{"hook":"planted"}"#);
        fs::remove_file(place.at("homes/run/cfg/skills")).unwrap();
        fs::create_dir(place.at("homes/run/cfg/skills")).unwrap();
        place.home.settle().unwrap();
        assert!(!place.at("operator/cfg/other.json").exists());
        assert_eq!(place.read("operator/cfg/settings.json"), "{}");
        assert_eq!(place.read("homes/run/cfg/settings.json"), "{}");
        assert!(place.at("homes/run/cfg/skills").is_symlink());
        fs::remove_file(place.at("operator/cfg/login.json")).unwrap();
        place.home.prepare().unwrap();
        assert!(!place.at("homes/run/cfg/login.json").is_symlink(), "the operator has logged out");
    }
}
