//! Upgrades on disk: a record and a log for each, and a lock that is held while the upgrade is under way.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use tracing::warn;
use uuid::Uuid;

use crate::bounded;
use crate::domain::engine::Engine;
use crate::engine::{Adapter, Install};
use crate::files::{self, write_durably};

/// Bytes of a log that are shown.
const TAIL: u64 = 8 * 1024;
/// Most bytes of a log that are read at once.
const PIECE: u64 = 1 << 20;
/// How many upgrades are kept.
const KEPT: usize = 100;

/// The state of an upgrade, or of one engine in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpgradeStatus {
    /// It waits for its turn.
    Queued,
    Running,
    Succeeded,
    /// Something was not installed.
    Failed,
}

impl UpgradeStatus {
    /// Whether it is over.
    pub fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Succeeded | Self::Failed => true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrade {
    pub upgrade_id: Uuid,
    pub status: UpgradeStatus,
    /// When it was requested.
    pub(crate) created_at: String,
    /// When npm was started.
    pub(crate) started_at: Option<String>,
    /// When it was over.
    pub(crate) finished_at: Option<String>,
    pub results: BTreeMap<String, UpgradeResult>,
}

/// The upgrade of one engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpgradeResult {
    pub status: UpgradeStatus,
    /// The package with its version.
    pub(crate) package: String,
    /// The version the installed program prints.
    pub(crate) cli_version_detected: Option<String>,
    /// Why it failed, or a remark.
    pub message: Option<String>,
}

impl Upgrade {
    pub(crate) fn begin(&mut self) {
        self.status = UpgradeStatus::Running;
        self.started_at = Some(now());
    }

    pub(crate) fn result(
        &mut self,
        engine: Engine,
        status: UpgradeStatus,
        version: Option<String>,
        message: Option<String>,
    ) {
        if let Some(result) = self.results.get_mut(engine.as_str()) {
            *result = UpgradeResult { status, cli_version_detected: version, message, package: result.package.clone() };
        }
    }

    /// Ends it: a success when every engine was installed.
    pub(crate) fn end(&mut self) {
        let good = self.results.values().all(|result| result.status == UpgradeStatus::Succeeded);
        self.status = if good { UpgradeStatus::Succeeded } else { UpgradeStatus::Failed };
        self.finished_at = Some(now());
    }

    /// Marks every engine that is not finished as failed, and ends the upgrade.
    pub(crate) fn fail_all(&mut self, reason: &str) {
        for result in self.results.values_mut().filter(|result| !result.status.is_final()) {
            result.status = UpgradeStatus::Failed;
            result.message = Some(reason.to_owned());
        }
        self.end();
    }
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// The folder of all upgrades.
pub(crate) struct Records {
    folder: PathBuf,
}

impl Records {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Records a new upgrade, which counts as under way while the returned file is open.
    pub(crate) fn begin(&self, wanted: &[(&Adapter, &Install)]) -> io::Result<(Upgrade, File)> {
        files::create_folder(&self.folder)?;
        self.remove_old();
        let results = wanted.iter().map(|(adapter, install)| {
            let package = format!("{}@{}", install.package, install.version);
            let result =
                UpgradeResult { status: UpgradeStatus::Queued, package, cli_version_detected: None, message: None };
            (adapter.name().to_owned(), result)
        });
        let upgrade = Upgrade {
            upgrade_id: Uuid::now_v7(),
            status: UpgradeStatus::Queued,
            created_at: now(),
            started_at: None,
            finished_at: None,
            results: results.collect(),
        };
        // Locked before the record is written: a record without a lock is one that was interrupted.
        let alive = self.open_log(upgrade.upgrade_id)?;
        rustix::fs::flock(&alive, FlockOperation::NonBlockingLockExclusive)?;
        self.write(&upgrade)?;
        Ok((upgrade, alive))
    }

    /// Stores the state of an upgrade.
    pub(crate) fn keep(&self, upgrade: &Upgrade) {
        if let Err(error) = self.write(upgrade) {
            warn!(upgrade = %upgrade.upgrade_id, %error, "the record of an upgrade could not be written");
        }
    }

    fn write(&self, upgrade: &Upgrade) -> io::Result<()> {
        Ok(write_durably(&self.record_file(upgrade.upgrade_id), &serde_json::to_vec_pretty(upgrade)?)?)
    }

    /// An upgrade; one that was interrupted has failed.
    pub(crate) fn read(&self, id: Uuid) -> io::Result<Option<Upgrade>> {
        let Some(upgrade) = self.written(id)? else { return Ok(None) };
        if upgrade.status.is_final() || self.is_alive(id)? {
            return Ok(Some(upgrade));
        }
        // It may have ended between the two checks: only what is written now counts.
        let Some(mut upgrade) = self.written(id)? else { return Ok(None) };
        if !upgrade.status.is_final() {
            upgrade.fail_all("interrupted: the service ended first; request the upgrade again");
            self.keep(&upgrade);
        }
        Ok(Some(upgrade))
    }

    fn written(&self, id: Uuid) -> io::Result<Option<Upgrade>> {
        let Some(bytes) = files::read_optional(&self.record_file(id))? else { return Ok(None) };
        Ok(Some(bounded::json::from_slice(&bytes)?))
    }

    fn is_alive(&self, id: Uuid) -> io::Result<bool> {
        let log = match files::open_followed(&self.log_file(id)) {
            Ok(log) => log,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match rustix::fs::flock(&log, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The log, opened for appending.
    pub(crate) fn open_log(&self, id: Uuid) -> io::Result<File> {
        File::options().create(true).append(true).open(self.log_file(id))
    }

    /// The log, to be read from this byte on.
    pub(crate) fn open_log_at(&self, id: Uuid, from: u64) -> io::Result<File> {
        let mut log = files::open_followed(&self.log_file(id))?;
        log.seek(SeekFrom::Start(from))?;
        Ok(log)
    }

    /// A piece of the log, from this byte on.
    pub(crate) fn log_from(&self, id: Uuid, from: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_log_at(id, from)?.take(PIECE).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The end of the log.
    pub(crate) fn log_tail(&self, id: Uuid) -> io::Result<String> {
        let length = match fs::metadata(self.log_file(id)) {
            Ok(found) => found.len(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(error),
        };
        let bytes = self.log_from(id, length.saturating_sub(TAIL))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn turn_file(&self) -> PathBuf {
        self.folder.join("turn")
    }

    fn record_file(&self, id: Uuid) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    fn log_file(&self, id: Uuid) -> PathBuf {
        self.folder.join(format!("{id}.log"))
    }

    /// The last upgrade of an engine.
    pub(crate) fn last_of(&self, engine: Engine) -> io::Result<Option<Upgrade>> {
        for id in self.newest_first() {
            // A record that is damaged tells nothing about any engine.
            let Ok(found) = self.read(id) else { continue };
            if let Some(upgrade) = found.filter(|upgrade| upgrade.results.contains_key(engine.as_str())) {
                return Ok(Some(upgrade));
            }
        }
        Ok(None)
    }

    /// All records; ids are in the order of time.
    fn newest_first(&self) -> Vec<Uuid> {
        let names = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let ids = names.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let mut ids: Vec<Uuid> = ids.filter_map(|path| Uuid::try_parse(path.file_stem()?.to_str()?).ok()).collect();
        ids.sort_unstable();
        ids.reverse();
        ids
    }

    fn remove_old(&self) {
        for id in self.newest_first().iter().skip(KEPT) {
            // A file that cannot be removed is tried again the next time.
            let _ = fs::remove_file(self.record_file(*id));
            let _ = fs::remove_file(self.log_file(*id));
        }
    }
}
