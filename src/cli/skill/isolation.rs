//! What confines a skill on this machine, for the commands about skills.

use crate::domain::codes::FindingCode;
use crate::orchestrator::{self, IsolationOfSkill};
use crate::settings::Settings;
use crate::skill::automation::Keeper;
use crate::skill::{Finding, Skill, front_matter, manifest};

/// Tries what the machine gives.
pub(crate) fn of(settings: &Settings, skill: &Skill) -> IsolationOfSkill {
    IsolationOfSkill::of(settings, &orchestrator::confinement(settings), skill)
}

/// That something the skill asks for is not enforced: by this machine, or by an engine.
pub(crate) fn findings(settings: &Settings, skill: &Skill) -> Vec<Finding> {
    by_machine(settings, skill).into_iter().chain(by_engines(skill)).collect()
}

fn by_engines(skill: &Skill) -> Option<Finding> {
    let tools = skill.tools_not_enforced();
    if tools.is_empty() {
        return None;
    }
    let message = format!("{} is not enforced: these engines cannot be held to it", tools.join(" and "));
    let hint = "name other engines in runner.json, or write the rule into the instructions; the package itself is fine";
    let finding = Finding::error(FindingCode::ToolsNotEnforced, front_matter::PATH, message, hint);
    Some(finding.into_warning().at("/allowed-tools"))
}

fn by_machine(settings: &Settings, skill: &Skill) -> Option<Finding> {
    if skill.manifest.automation.asks_for().is_empty() {
        return None;
    }
    let here = of(settings, skill).here;
    let asked = skill.manifest.automation.not_kept_by(here.keeper());
    // In the sandbox only a value that nobody knows is left, which the lint of the package tells.
    if here.keeper() == Keeper::Sandbox || asked.is_empty() {
        return None;
    }
    let message = format!("{} is not enforced on this machine: {}", asked.join(" and "), here.in_words());
    let hint = "run `skill-runner doctor`, which says why and what to do; the package itself is fine";
    let finding = Finding::error(FindingCode::SandboxMissing, manifest::PATH, message, hint);
    Some(finding.into_warning().at("/automation"))
}
