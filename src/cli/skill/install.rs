//! `skill install`: installs a package into the skills folder, by the rules of the API.

use std::io;
use std::path::Path;

use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::skill::{findings, lifecycle};
use crate::cli::terminal::look::{Ink, Look};
use crate::cli::terminal::output;
use crate::domain::causes::chain;
use crate::domain::codes::{ErrorCode, Exit};
use crate::orchestrator::{NotInstalled, install_here};
use crate::registry::{Action, InstallRefused};
use crate::settings::Settings;
use crate::workspace::{Layout, UploadError, UploadLimits};

/// Installs a zip or a folder.
pub(crate) fn install(settings: &Settings, source: &Path, as_json: bool) -> Result<(), Failure> {
    if !source.is_dir() && !source.is_file() {
        let reason = if source.exists() { "is neither a folder nor a file" } else { "does not exist" };
        return Err(Failure::Usage(format!("{} {reason}; name a zip or the folder of a skill", source.display())));
    }
    lifecycle::not_shared(settings)?;
    let limits = limits(settings);
    let layout = Layout::new(&settings.paths.data_dir);
    match install_here(source, &settings.paths.skills_dir, &layout, &limits) {
        Ok((installed, done)) if as_json => output::json(&json!({
            "ok": true,
            "skill_id": done.skill_id,
            "version": done.version,
            "action": done.action,
            "dir": installed.dir,
            "findings": installed.skill.findings,
        })),
        Ok((installed, done)) => {
            findings::show(&installed.skill.findings)?;
            let verb = match done.action {
                Action::Install => "is installed",
                Action::Update | Action::Rollback | Action::Uninstall => "has replaced the older version",
            };
            let message =
                format!("{} {} {verb} in {}", done.skill_id, installed.skill.version, installed.dir.display());
            output::line(&Look::of(&io::stdout()).paint(Ink::Good, &message))
        }
        Err(NotInstalled::Refused(InstallRefused::Package { findings })) if as_json => {
            output::json(
                &json!({"ok": false, "error": {"code": ErrorCode::SkillPackageInvalid}, "findings": findings}),
            )?;
            Err(Failure::Reported(Exit::Refused))
        }
        Err(NotInstalled::Refused(InstallRefused::Package { findings })) => {
            findings::show(&findings)?;
            Err(Failure::Reported(Exit::Refused))
        }
        Err(other) => {
            let failure = failure(source, other);
            if let Some(document) = failure.to_json().filter(|_| as_json) {
                output::json(&document)?;
            }
            Err(failure)
        }
    }
}

/// The limits of zips in force.
pub(crate) fn limits(settings: &Settings) -> UploadLimits {
    UploadLimits {
        max_upload_bytes: settings.limits.max_upload_bytes,
        max_unpacked_bytes: settings.limits.max_unpacked_bytes,
        max_entries: settings.limits.max_entries,
        min_free_bytes: settings.limits.min_free_bytes,
        ..UploadLimits::default()
    }
}

fn failure(source: &Path, refused: NotInstalled) -> Failure {
    match refused {
        NotInstalled::Zip(UploadError::Io(error)) => {
            Failure::Broken(format!("{}: {}", source.display(), chain(&error)))
        }
        NotInstalled::Zip(error) => Failure::refused(error.code(), error.to_string()),
        NotInstalled::Refused(InstallRefused::Io(error)) => Failure::Broken(chain(&error)),
        NotInstalled::Refused(not_newer) => Failure::refused(ErrorCode::VersionNotNewer, not_newer.to_string()),
    }
}
