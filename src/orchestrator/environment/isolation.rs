//! What confines runs on this machine, told before any run begins.

use serde::Serialize;

use crate::domain::isolation::Tier;
use crate::engine::{self, Adapter};
use crate::settings::{Sandbox, Settings};
use crate::skill::Skill;
use crate::skill::automation::Keeper;
use crate::supervisor::{self, Confinement};

/// What is asked for and what is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct IsolationHere {
    /// The setting.
    sandbox: Sandbox,
    tier: Tier,
    /// Whether the engine confines its own commands.
    engine_sandbox: bool,
    /// Why there is no sandbox.
    reason: Option<String>,
}

/// The same for one skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct IsolationOfSkill {
    #[serde(flatten)]
    pub(crate) here: IsolationHere,
    /// What the skill asks for.
    asked: Vec<String>,
    /// What of it nothing enforces.
    pub(crate) not_enforced: Vec<String>,
}

impl IsolationHere {
    /// For scripts, or for an agent CLI.
    pub(crate) fn of(asked: Sandbox, confinement: &Confinement, engine: Option<&Adapter>) -> IsolationHere {
        let (tier, reason) = match confinement {
            Confinement::Works { .. } => (Tier::Sandbox, None),
            Confinement::Missing { reason } => (Tier::ProcessTree, Some(reason.clone())),
            Confinement::Off => (Tier::ProcessTree, Some("sandbox is off".to_owned())),
        };
        // An engine's own sandbox cannot be made in another one.
        let own = asked != Sandbox::Off && tier != Tier::Sandbox;
        let engine_sandbox = own && engine.is_some_and(|engine| engine.has_sandbox);
        IsolationHere { sandbox: asked, tier, engine_sandbox, reason }
    }

    pub(crate) fn keeper(&self) -> Keeper {
        match (self.tier, self.engine_sandbox) {
            (Tier::Sandbox, _) => Keeper::Sandbox,
            (Tier::ProcessTree, true) => Keeper::Engine,
            (Tier::ProcessTree, false) => Keeper::Nobody,
        }
    }

    /// What confines the runs, in one word: the sandbox (`active`), the engine's own (`engine`), or nothing, because it is `off` or
    /// `missing`.
    pub(crate) fn status(&self) -> &'static str {
        match (self.tier, self.engine_sandbox, self.sandbox) {
            (Tier::Sandbox, _, _) => "active",
            (Tier::ProcessTree, true, _) => "engine",
            (Tier::ProcessTree, false, Sandbox::Off) => "off",
            (Tier::ProcessTree, false, Sandbox::Auto | Sandbox::On) => "missing",
        }
    }

    /// In one line.
    pub(crate) fn in_words(&self) -> String {
        let setting = match self.sandbox {
            Sandbox::Auto => "auto",
            Sandbox::On => "on",
            Sandbox::Off => "off",
        };
        let reason = self.reason.as_deref().unwrap_or_default();
        match (self.tier, self.engine_sandbox, self.sandbox) {
            (Tier::Sandbox, _, _) => format!("in the sandbox (sandbox: {setting})"),
            (Tier::ProcessTree, true, _) => format!("commands of the engine by its own sandbox (no other: {reason})"),
            (Tier::ProcessTree, false, Sandbox::On) => format!("no run starts (sandbox: on): {reason}"),
            (Tier::ProcessTree, false, Sandbox::Auto | Sandbox::Off) => format!("not confined: {reason}"),
        }
    }
}

impl IsolationOfSkill {
    /// Of a skill on whichever of its engines.
    pub(crate) fn of(settings: &Settings, confinement: &Confinement, skill: &Skill) -> IsolationOfSkill {
        let engines = skill.effective_engines();
        let weakest =
            engines.iter().map(|name| engine::adapter(*name)).min_by_key(|engine| engine.map(|it| it.has_sandbox));
        let engine = weakest.flatten().filter(|_| !skill.manifest.has_scripts());
        let here = IsolationHere::of(settings.runs.sandbox, confinement, engine);
        let automation = &skill.manifest.automation;
        let in_words = |words: Vec<&'static str>| words.into_iter().map(str::to_owned);
        let in_vain = || skill.asked_in_vain().into_iter().map(|(asked, _)| asked);
        let tools = skill.allowed_tools().map(|_| "allowed-tools".to_owned());
        let asked = in_words(automation.asks_for()).chain(in_vain()).chain(tools);
        let not_kept = in_words(automation.not_kept_by(here.keeper()));
        let not_enforced = not_kept.chain(in_vain()).chain(skill.tools_not_enforced());
        IsolationOfSkill { here, asked: asked.collect(), not_enforced: not_enforced.collect() }
    }
}

/// What confines the runs of a service with these settings, which may not run. Blocks.
pub(crate) fn confinement(settings: &Settings) -> Confinement {
    match settings.runs.sandbox {
        Sandbox::Off => Confinement::Off,
        Sandbox::Auto | Sandbox::On => supervisor::probe_beside(&settings.paths.data_dir),
    }
}
