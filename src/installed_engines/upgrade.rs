//! Upgrades: npm installs the pinned versions into the managed prefix, one upgrade at a time on this data folder.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use tracing::{error, info, warn};
use uuid::Uuid;

use super::installed::InstalledEngines;
use super::program::{self, Source};
use super::upgrade_records::{Records, Upgrade, UpgradeStatus};
use crate::engine::{self, Adapter, Install};
use crate::files::child;

/// How long npm may take for one engine.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// How long an upgrade waits for the one before it.
const PATIENCE: Duration = Duration::from_secs(2 * 60 * 60);
/// How often it checks whether that one is over.
const LOOK: Duration = Duration::from_millis(50);
/// npm tells each request it makes, so that its progress is seen, and gives up soon on a registry that it cannot reach or
/// trust: with its own settings it would try for minutes.
const PATIENT: [&str; 4] =
    ["--loglevel=http", "--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"];
/// Most lines of what npm says was wrong in a message.
const COMPLAINT_LINES: usize = 4;
/// Most bytes of each.
const COMPLAINT_LINE_BYTES: u64 = 400;
/// The most upgrades that may wait or run.
const WAITING_MAX: usize = 8;

/// Why an upgrade was not begun.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeRefused {
    /// There is no package to install.
    #[error("{engine} cannot be installed: {instead}")]
    NotInstallable {
        engine: String,
        /// What to do instead.
        instead: String,
    },
    /// Too many are under way.
    #[error("{limit} upgrades are under way; try again when one has ended")]
    Busy {
        /// The most there may be.
        limit: usize,
    },
    /// Its record could not be written.
    #[error("begin an upgrade")]
    Io(#[from] io::Error),
}

impl InstalledEngines {
    /// Every engine that can be installed.
    pub(crate) fn installable() -> Vec<&'static Adapter> {
        engine::adapters().filter(|adapter| adapter.install.is_some()).collect()
    }

    /// Begins to install these engines and returns at once; [`InstalledEngines::upgrade_of`] tells its progress.
    pub fn upgrade(&self, engines: &[&'static Adapter]) -> Result<Upgrade, UpgradeRefused> {
        let mut wanted = Vec::new();
        for adapter in engines {
            let Some(install) = &adapter.install else {
                let instead = program::advice(adapter);
                return Err(UpgradeRefused::NotInstallable { engine: adapter.name().to_owned(), instead });
            };
            wanted.push((*adapter, install));
        }
        if self.0.upgrading.fetch_add(1, Ordering::SeqCst) >= WAITING_MAX {
            self.0.upgrading.fetch_sub(1, Ordering::SeqCst);
            return Err(UpgradeRefused::Busy { limit: WAITING_MAX });
        }
        let begun = self.records().begin(&wanted);
        let (upgrade, alive) = begun.inspect_err(|_| {
            self.0.upgrading.fetch_sub(1, Ordering::SeqCst);
        })?;
        let (installed, record) = (self.clone(), upgrade.clone());
        let work = move || {
            // A panic ends the upgrade, which then reads as failed, and takes nobody's place.
            let broke = catch_unwind(AssertUnwindSafe(|| installed.carry_out(record, &wanted))).is_err();
            installed.0.upgrading.fetch_sub(1, Ordering::SeqCst);
            if broke {
                error!("an upgrade broke off; this is a fault of skill-runner");
            }
            // The upgrade counts as under way until this lock is released.
            drop(alive);
        };
        // Without a thread its lock is released at once, and it reads as failed.
        thread::Builder::new().spawn(work).inspect_err(|_| {
            self.0.upgrading.fetch_sub(1, Ordering::SeqCst);
        })?;
        Ok(upgrade)
    }

    /// An upgrade, under way or finished.
    pub fn upgrade_of(&self, id: Uuid) -> io::Result<Option<Upgrade>> {
        self.records().read(id)
    }

    /// The last upgrade of an engine, under way or finished.
    pub(crate) fn last_upgrade(&self, adapter: &Adapter) -> io::Result<Option<Upgrade>> {
        self.records().last_of(adapter.engine)
    }

    /// The log of an upgrade from this byte on.
    pub(crate) fn upgrade_log(&self, id: Uuid, from: u64) -> io::Result<Vec<u8>> {
        self.records().log_from(id, from)
    }

    /// The end of an upgrade's log.
    pub fn upgrade_log_tail(&self, id: Uuid) -> io::Result<String> {
        self.records().log_tail(id)
    }

    fn records(&self) -> Records {
        Records::new(self.0.folder.join("upgrades"))
    }

    fn carry_out(&self, mut upgrade: Upgrade, wanted: &[(&'static Adapter, &'static Install)]) {
        let records = self.records();
        let id = upgrade.upgrade_id;
        let turn = match records.wait_for_turn(PATIENCE, LOOK) {
            Ok(turn) => turn,
            Err(error) => {
                upgrade.fail_all(&format!("an earlier upgrade did not end: {error}"));
                records.keep(&upgrade);
                return;
            }
        };
        upgrade.begin();
        for (adapter, install) in wanted {
            upgrade.result(adapter.engine, UpgradeStatus::Running, None, None);
            records.keep(&upgrade);
            info!(upgrade = %id, engine = adapter.name(), version = install.version, "installing");
            match self.install(adapter, install, &records, id, &turn) {
                Ok((version, remark)) => {
                    upgrade.result(adapter.engine, UpgradeStatus::Succeeded, Some(version), remark);
                }
                Err(reason) => {
                    warn!(upgrade = %id, engine = adapter.name(), reason, "the installation failed");
                    upgrade.result(adapter.engine, UpgradeStatus::Failed, None, Some(reason));
                }
            }
        }
        upgrade.end();
        records.keep(&upgrade);
    }

    /// Runs npm and checks what it installed: the version, and a remark about it.
    fn install(
        &self,
        adapter: &Adapter,
        install: &Install,
        records: &Records,
        id: Uuid,
        turn: &File,
    ) -> Result<(String, Option<String>), String> {
        let mut log = records.open_log(id).map_err(|error| format!("open its log: {error}"))?;
        let before = log.metadata().map_or(0, |about| about.len());
        let words = || records.open_log_at(id, before).map_or_else(|_| complaint(io::empty()), complaint);
        let said = self.npm(install, &mut log, turn, words);
        if let Err(reason) = &said {
            // An operator reads the log first when something is wrong.
            let _ = writeln!(log, "{}: {reason}", adapter.name());
        }
        said?;
        let place = program::Place { command: None, ..self.place(adapter) };
        let located = program::locate(&place).ok().filter(|located| located.source == Source::Managed);
        let located = located.ok_or_else(|| {
            format!("npm has installed {}, but its program is not at the expected place", install.package)
        })?;
        let version = self.0.versions.of(adapter, &located.program, &located.path)?;
        let remark = not_in_use(self.place(adapter).command.is_some(), adapter);
        let _ = writeln!(log, "{}: {version} is installed", adapter.name());
        Ok((version, remark))
    }

    /// Runs npm; `words` are those of npm in its log.
    fn npm(
        &self,
        install: &Install,
        log: &mut File,
        turn: &File,
        words: impl FnOnce() -> String,
    ) -> Result<(), String> {
        let npm = program::on_path("npm", self.path());
        let npm = npm.ok_or("npm is not on the PATH of the service: install node 20 or newer, which brings it")?;
        let prefix = &self.0.npm_prefix;
        fs::create_dir_all(prefix).map_err(|error| format!("make {}: {error}", prefix.display()))?;
        let package = format!("{}@{}", install.package, install.version);
        let _ = writeln!(log, "npm install --prefix {} {package}", prefix.display());
        let streams = log.try_clone().and_then(|stdout| Ok((stdout, log.try_clone()?, turn.try_clone()?)));
        let (stdout, stderr, stdin) = streams.map_err(|error| format!("hand over its log: {error}"))?;
        let mut command = Command::new(npm);
        command.arg("install").arg("--prefix").arg(prefix);
        command
            .args(["--save-exact", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress"])
            .args(PATIENT);
        command.arg(package);
        command.env_clear().envs(self.0.env.iter().filter(|(name, _)| is_for_npm(name))).env("PATH", self.path());
        // Its standard input is the empty lock file of the turn: npm reads nothing, and if this service is killed,
        // the lock is held until npm has ended as well.
        command.current_dir(prefix).stdin(stdin).stdout(stdout).stderr(stderr).process_group(0);
        let mut child = child::start(&mut command).map_err(|error| format!("npm cannot be started: {error}"))?;
        let status = child::wait(&mut child, LIMIT).map_err(|error| format!("npm {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("npm failed ({status}){}", words())) }
    }
}

/// What npm said was wrong, in its own words. A registry has the last word in them, as long and with whatever characters it likes.
fn complaint(log: impl Read) -> String {
    let mut log = BufReader::new(log);
    let mut words: Vec<String> = Vec::new();
    while words.len() < COMPLAINT_LINES {
        let mut line = Vec::new();
        let read = log.by_ref().take(COMPLAINT_LINE_BYTES).read_until(b'\n', &mut line);
        let is_whole = line.ends_with(b"\n");
        if !read.is_ok_and(|read| read > 0) || (!is_whole && log.skip_until(b'\n').is_err()) {
            break;
        }
        let line = String::from_utf8_lossy(&line);
        let said = line.trim_end().strip_prefix("npm error ").filter(|line| !is_about_logs(line));
        words.extend(said.map(|said| said.chars().filter(|character| !character.is_control()).collect()));
    }
    let meaning = words.iter().find_map(|line| line.strip_prefix("code ")).and_then(meaning);
    match (meaning, &words[..]) {
        (_, []) => "; see the log".to_owned(),
        (Some(meaning), words) => format!(": {meaning}: {}", words.join("; ")),
        (None, words) => format!(": {}", words.join("; ")),
    }
}

/// What npm's code of an error means. ENOTFOUND is a host without an address, not a missing package.
fn meaning(code: &str) -> Option<&'static str> {
    const NETWORK: [&str; 8] = [
        "ENOTFOUND",
        "EAI_AGAIN",
        "ECONNREFUSED",
        "ECONNRESET",
        "ETIMEDOUT",
        "ENETUNREACH",
        "EHOSTUNREACH",
        "ERR_SOCKET_TIMEOUT",
    ];
    let code = code.trim();
    let answered = code.strip_prefix('E').and_then(|status| status.parse::<u16>().ok());
    match (code, answered) {
        ("ETARGET" | "E404", _) => Some("the package index has no such package or version"),
        ("ENOSPC", _) => Some("there is no room on the disk"),
        (_, Some(401 | 403 | 407)) => Some("the package index, or a proxy before it, refuses access"),
        (_, Some(500..)) => Some("the package index does not work at present"),
        (code, _) if NETWORK.contains(&code) => Some("the package index cannot be reached"),
        (code, _) if code.contains("CERT") || code.starts_with("ERR_TLS") || code.contains("SIGNED") => {
            Some("the package index cannot be trusted: its certificate is not known here")
        }
        _ => None,
    }
}

fn is_about_logs(line: &str) -> bool {
    line.contains("complete log of this run") || line.trim().is_empty()
}

fn not_in_use(configured: bool, adapter: &Adapter) -> Option<String> {
    configured
        .then(|| format!("engines.{}.command names another program, which is still the one in use", adapter.name()))
}

/// Whether npm needs this variable to reach its registry. It gets no keys for models: packages run scripts when installed.
fn is_for_npm(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let plain = ["home", "user", "lang", "tmpdir", "npm_token", "node_extra_ca_certs", "ssl_cert_file", "ssl_cert_dir"];
    plain.contains(&name.as_str()) || name.starts_with("npm_config_") || name.ends_with("_proxy")
}

impl Records {
    /// Waits until no other upgrade runs on this data folder, in this process or another. The lock is held as long as
    /// the file is open.
    fn wait_for_turn(&self, patience: Duration, look: Duration) -> io::Result<File> {
        let turn = open_empty(&self.turn_file())?;
        let deadline = Instant::now() + patience;
        loop {
            match rustix::fs::flock(&turn, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(turn),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < deadline => {
                    thread::sleep(look);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A file that stays empty; for reading, since it becomes npm's standard input.
fn open_empty(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)?;
    File::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_cannot_be_reached_is_told_from_one_that_has_no_such_package() {
        let said = |code: &str| {
            complaint(format!("npm http fetch GET 1\nnpm error code {code}\nnpm error words of npm\n").as_bytes())
        };
        for (code, meaning) in [
            ("E404", "has no such package or version"),
            ("ETARGET", "has no such package or version"),
            ("ENOTFOUND", "cannot be reached"),
            ("ECONNREFUSED", "cannot be reached"),
            ("E403", "refuses access"),
            ("E503", "does not work at present"),
            ("SELF_SIGNED_CERT_IN_CHAIN", "cannot be trusted"),
            ("ENOSPC", "no room"),
        ] {
            let told = said(code);
            assert!(told.contains(meaning) && told.ends_with(&format!(": code {code}; words of npm")), "{told}");
        }
        assert_eq!(said("EWHATEVER"), ": code EWHATEVER; words of npm");
        assert_eq!(complaint(&b"npm http fetch\n"[..]), "; see the log");
        let endless = format!("npm error code E403\nnpm error \u{1b}[31m{}\nnpm error last", "r".repeat(1 << 20));
        assert_eq!(
            complaint(endless.as_bytes()),
            format!(
                ": the package index, or a proxy before it, refuses access: code E403; [31m{}; last",
                "r".repeat(385)
            )
        );
    }
}
