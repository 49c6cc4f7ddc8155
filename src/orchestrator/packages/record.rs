//! Installations of packages on disk, one record each, so that a client can ask after a restart too.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::warn;
use uuid::Uuid;

use crate::bounded;
use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::files;
use crate::orchestrator::error::Error;
use crate::registry::{Action, Done, InstallRefused};
use crate::skill::Finding;
use crate::workspace::Layout;

/// Installations that are remembered.
pub(super) const KEPT: usize = 1000;

/// Where an installation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstallStatus {
    /// It waits for its turn.
    Queued,
    /// The package is being put into its place.
    Running,
    /// The skill can be used.
    Succeeded,
    Failed,
}

impl InstallStatus {
    /// Whether it is over.
    pub fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Succeeded | Self::Failed => true,
        }
    }
}

/// An installation of a package, or another change of an installed skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Install {
    pub request_id: Uuid,
    pub status: InstallStatus,
    /// The skill, once that is known.
    pub skill_id: Option<String>,
    /// The version that was sent, that is to be in place again, or that is uninstalled.
    pub version: Option<String>,
    /// What was done, once that is known.
    pub(crate) action: Option<Action>,
    pub error: Option<InstallFailure>,
    /// What the author should know about a package that was taken.
    pub warnings: Vec<Value>,
    /// When it was asked for.
    pub created_at: String,
    /// When it was over.
    pub finished_at: Option<String>,
}

/// Why an installation failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstallFailure {
    pub code: String,
    pub message: String,
    /// The particulars: `findings` of a package that breaks rules.
    pub details: Value,
}

impl InstallFailure {
    /// A package that breaks these rules.
    pub(crate) fn package(findings: &[Finding], message: String) -> Self {
        Self {
            code: ErrorCode::SkillPackageInvalid.as_str().to_owned(),
            message,
            details: json!({"findings": findings}),
        }
    }

    /// A change that could not be made.
    pub(crate) fn broken(error: &Error) -> Self {
        Self { code: error.code().as_str().to_owned(), message: error.to_string(), details: json!({}) }
    }

    /// Its service ended before it was made.
    pub(crate) fn interrupted() -> Self {
        let message = "the service ended before this was done; nothing was changed, send it again";
        Self {
            code: ErrorCode::OrchestratorRestartInterrupted.as_str().to_owned(),
            message: message.into(),
            details: json!({}),
        }
    }
}

impl From<&InstallRefused> for InstallFailure {
    fn from(refused: &InstallRefused) -> Self {
        let message = refused.to_string();
        match refused {
            InstallRefused::Package { findings } => Self::package(findings, message),
            InstallRefused::NotNewer { installed, given, .. } => Self {
                code: ErrorCode::VersionNotNewer.as_str().to_owned(),
                message,
                details: json!({"installed": installed.to_string(), "given": given.to_string()}),
            },
            InstallRefused::Io(_) => Self {
                code: ErrorCode::Internal.as_str().to_owned(),
                message: "the package could not be put into the skills folder; the service's log tells why".into(),
                details: json!({}),
            },
        }
    }
}

impl Install {
    pub(crate) fn queued(request_id: Uuid) -> Self {
        Self {
            request_id,
            status: InstallStatus::Queued,
            skill_id: None,
            version: None,
            action: None,
            error: None,
            warnings: Vec::new(),
            created_at: now(),
            finished_at: None,
        }
    }

    /// It is under way, and this is what will be done.
    pub(crate) fn begin(&mut self, done: &Done) {
        self.status = InstallStatus::Running;
        self.skill_id = Some(done.skill_id.clone());
        self.version.clone_from(&done.version);
        self.action = Some(done.action);
    }

    pub(crate) fn succeed(&mut self, done: Done) {
        self.status = InstallStatus::Succeeded;
        self.skill_id = Some(done.skill_id);
        self.version = done.version;
        self.action = Some(done.action);
        self.finished_at = Some(now());
    }

    pub(crate) fn fail(&mut self, failure: InstallFailure) {
        self.status = InstallStatus::Failed;
        self.error = Some(failure);
        self.finished_at = Some(now());
    }
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// The folder of all records.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    folder: PathBuf,
}

/// What became of the installations that an earlier process left open.
#[derive(Default)]
pub(crate) struct Recovered {
    pub(crate) ended: Vec<Install>,
    /// Those whose record could not be brought up to date.
    pub(crate) left: Vec<Uuid>,
}

impl Records {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self { folder: layout.installs() }
    }

    /// Writes down where an installation is; durable when this returns.
    pub(crate) fn write(&self, install: &Install) -> Result<(), Error> {
        files::create_folder(&self.folder)?;
        let bytes = serde_json::to_vec_pretty(install)
            .map_err(|error| Error::io("write down the installation")(error.into()))?;
        Ok(files::write_durably(&self.file(install.request_id), &bytes)?)
    }

    /// An installation as it is now.
    pub(crate) fn read(&self, id: Uuid) -> Result<Option<Install>, Error> {
        let path = self.file(id);
        let Some(bytes) = files::read_optional(&path)? else { return Ok(None) };
        let read = bounded::json::from_slice(&bytes).map(Some);
        read.map_err(|error| Error::io(format!("read {}", path.display()))(error.into()))
    }

    /// Ends what an earlier process of the service left open: as `done` tells, else as interrupted.
    /// A record that is damaged stays as it is, and keeps no service from starting.
    pub(crate) fn recover(&self, done: impl Fn(Uuid) -> Option<Done>) -> Recovered {
        let mut recovered = Recovered::default();
        for id in self.ids() {
            match self.recover_one(id, &done) {
                Ok(ended) => recovered.ended.extend(ended),
                Err(error) => {
                    warn!(install = %id, error = %chain(&error), "the record of an installation could not be brought up to date");
                    recovered.left.push(id);
                }
            }
        }
        recovered
    }

    /// The installation, if it was open.
    fn recover_one(&self, id: Uuid, done: impl Fn(Uuid) -> Option<Done>) -> Result<Option<Install>, Error> {
        let Some(mut install) = self.read(id)?.filter(|install| !install.status.is_final()) else { return Ok(None) };
        match done(id) {
            Some(done) => install.succeed(done),
            None => install.fail(InstallFailure::interrupted()),
        }
        self.write(&install)?;
        Ok(Some(install))
    }

    /// Removes the oldest records beyond those that are remembered.
    pub(crate) fn forget_old(&self) {
        for id in self.ids().iter().rev().skip(KEPT) {
            // What cannot be removed is tried again the next time.
            let _ = files::remove_file(&self.file(*id));
        }
    }

    /// All of them, in the order of their time.
    fn ids(&self) -> Vec<Uuid> {
        let names = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let records = names.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let mut ids: Vec<Uuid> = records.filter_map(|path| Uuid::try_parse(path.file_stem()?.to_str()?).ok()).collect();
        ids.sort_unstable();
        ids
    }

    fn file(&self, id: Uuid) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_record_keeps_no_other_from_being_recovered() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(&Layout::new(folder.path()));
        let open = [1, 2, 3].map(|number| Install::queued(Uuid::from_u128(number)));
        open.iter().for_each(|install| records.write(install).unwrap());
        fs::write(records.file(open[0].request_id), "").unwrap();
        fs::remove_file(records.file(open[1].request_id)).unwrap();
        fs::create_dir(records.file(open[1].request_id)).unwrap();
        assert_eq!(records.recover(|_| None).left, [open[0].request_id, open[1].request_id]);
        let status = |install: &Install| records.read(install.request_id).ok().flatten().map(|read| read.status);
        assert_eq!(open.each_ref().map(status), [None, None, Some(InstallStatus::Failed)]);
    }
}
