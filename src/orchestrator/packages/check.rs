//! What an installation of a package would do: its findings, and what would change. Nothing is installed.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::packages::record::InstallFailure;
use crate::orchestrator::packages::unpack;
use crate::registry::{self, Action, InstallRefused, Installed, Plan};
use crate::skill::changes::Change;
use crate::skill::{Finding, Intake};

/// A package that was looked at.
#[derive(Debug)]
pub(crate) struct PackageCheck {
    /// What it says; none if it breaks the rules.
    pub(crate) package: Option<Arc<Installed>>,
    /// What is in its place now.
    pub(crate) replaces: Option<Arc<Installed>>,
    /// Why it would not be installed.
    pub(crate) refused: Option<InstallFailure>,
    pub(crate) told: Told,
}

/// The part that is the same for every package.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    /// What is wrong with it: errors and warnings.
    pub(crate) findings: Vec<Finding>,
    /// `install` or `update`; none if it would be refused.
    pub(crate) action: Option<Action>,
    /// The files that differ from what is in its place now.
    pub(crate) changes: Vec<Change>,
}

impl Orchestrator {
    /// Looks at the zip of a package, a file on disk. What is wrong with the zip itself is refused.
    pub(crate) async fn check_package(&self, zip: PathBuf) -> Result<PackageCheck, Error> {
        self.shared.follow_skills().await?;
        let (shared, limits) = (self.shared.clone(), self.upload_limits());
        let look = move || {
            let tmp = shared.layout.tmp();
            let failed = || Error::io(format!("make a folder in {}", tmp.display()));
            files::create_folder(&tmp)?;
            let place = tempfile::Builder::new().prefix("check-").tempdir_in(&tmp).map_err(failed())?;
            let loaded = match unpack::unpack(&zip, place.path(), &limits)? {
                Ok(folder) => match registry::load_dir(&folder, Intake::New) {
                    Ok(package) => Ok(package),
                    Err(why) => Err(why.shortage(&folder).map_or_else(|| Ok(why.findings()), Err)?),
                },
                Err(finding) => Err(vec![finding]),
            };
            let package = match loaded {
                Ok(package) => Arc::new(package),
                Err(findings) => {
                    let refused = InstallRefused::Package { findings: findings.clone() };
                    let told = Told { findings, action: None, changes: Vec::new() };
                    let refused = Some(InstallFailure::from(&refused));
                    return Ok(PackageCheck { package: None, replaces: None, refused, told });
                }
            };
            let (action, refused) = match Plan::install(&shared.settings.paths.skills_dir, &package.skill) {
                Ok(plan) => (Some(plan.done.action), None),
                Err(InstallRefused::Io(error)) => return Err(error.into()),
                Err(refused) => (None, Some(InstallFailure::from(&refused))),
            };
            let look = || Ok([shared.registry.package(&package.skill.id, None)?, Some(package.clone())]);
            let failed = |error| Error::io("compare the packages")(std::io::Error::other(error));
            let ([replaces, _], changes) = registry::compare(look, failed)?;
            let told = Told { findings: package.skill.findings.clone(), action, changes };
            Ok::<_, Error>(PackageCheck { package: Some(package), replaces, refused, told })
        };
        let _turn = self.shared.unpacking.turn().await?;
        self.shared.blocking.run("check the package", look).await?
    }
}
