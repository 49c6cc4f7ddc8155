//! What confines a skill on this machine, for the commands about skills.

use crate::domain::codes::FindingCode;
use crate::orchestrator::{self, IsolationOfSkill};
use crate::settings::Settings;
use crate::skill::{Finding, Skill, manifest};

/// Tries what the machine gives.
pub(crate) fn of(settings: &Settings, skill: &Skill) -> IsolationOfSkill {
    IsolationOfSkill::of(settings, &orchestrator::confinement(settings), skill)
}

/// That something the skill asks for is not enforced here.
pub(crate) fn finding(settings: &Settings, skill: &Skill) -> Option<Finding> {
    if skill.manifest.automation.asks_for(false).is_empty() {
        return None;
    }
    let isolation = of(settings, skill);
    if isolation.not_enforced.is_empty() {
        return None;
    }
    let message = format!(
        "{} is not enforced on this machine: {}",
        isolation.not_enforced.join(" and "),
        isolation.here.in_words()
    );
    let hint = "run `skill-runner doctor`, which says why and what to do; the package itself is fine";
    let finding = Finding::error(FindingCode::SandboxMissing, manifest::PATH, message, hint);
    Some(finding.into_warning().at("/automation"))
}
