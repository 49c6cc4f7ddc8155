//! What can be done with an installed skill, and in which words it is refused.

use crate::domain::codes::ErrorCode;
use crate::domain::event::ValidationError;
use crate::orchestrator::error::Error;
use crate::registry::{ChangeRefused, Done, Registry, Staging};
use crate::skill::Finding;

/// What is to be done with an installed skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// To the archived package of this version, or whose fingerprint begins so.
    Rollback {
        to: String,
    },
    Uninstall,
}

impl Change {
    pub(super) fn carry_out(
        &self,
        staging: &Staging,
        id: &str,
        begun: impl FnOnce(&Done),
    ) -> Result<Done, ChangeRefused> {
        match self {
            Self::Rollback { to } => staging.rollback(id, to, begun),
            Self::Uninstall => staging.uninstall(id, begun),
        }
    }
}

pub(super) fn not_found(registry: &Registry, id: &str) -> Error {
    Error::SkillNotFound { id: id.chars().take(64).collect(), reason: String::new(), similar: registry.similar(id) }
}

pub(super) fn rejected(refused: ChangeRefused, registry: &Registry, id: &str) -> Error {
    let plain = |code, message| Error::Rejected { code, message, details: Vec::new() };
    let message = refused.to_string();
    match refused {
        // It is there, but not in the skills folder.
        ChangeRefused::NotFound if registry.lookup(id).is_ok() => {
            let message = format!("{id} comes from an agent's folder; remove it from the list in its agent.yaml");
            plain(ErrorCode::SkillNotRemovable, message)
        }
        ChangeRefused::NotFound => {
            let message =
                format!("{id} is not installed; its versions are in the archive, and a rollback brings one back");
            plain(ErrorCode::SkillNotFound, message)
        }
        ChangeRefused::NoSuchVersion { .. } => plain(ErrorCode::SkillVersionNotFound, message),
        ChangeRefused::InPlace { .. } => plain(ErrorCode::SkillVersionInPlace, message),
        ChangeRefused::Ambiguous { .. } => plain(ErrorCode::InvalidRequest, message),
        ChangeRefused::Link { .. } => plain(ErrorCode::SkillNotRemovable, message),
        ChangeRefused::Broken { findings } => {
            let details = findings.iter().map(detail).collect();
            Error::Rejected { code: ErrorCode::SkillPackageInvalid, message, details }
        }
        ChangeRefused::Io(error) => error.into(),
    }
}

fn detail(finding: &Finding) -> ValidationError {
    ValidationError { path: format!("{}#{}", finding.file, finding.pointer), message: finding.message.clone() }
}
