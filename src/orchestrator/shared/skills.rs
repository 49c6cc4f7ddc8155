//! The skill of a run, and where its processes find it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crate::domain::causes::chain;
use crate::domain::state::RunState;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::shared::Shared;
use crate::prompt::contract;
use crate::registry::{self, Installed, NotUsable};
use crate::skill::manifest::EntrypointKind;
use crate::skill::{Intake, Skill};
use crate::workspace::{self, Lent, RunPaths, shared_skills};

/// Where a run's processes find its skill.
#[derive(Debug, Clone)]
pub(crate) struct SkillPlace {
    /// The folder with the files.
    pub files: PathBuf,
    /// The folder as the run's processes see it.
    pub seen_at: PathBuf,
    /// The copy that the run has to give back.
    lent: Option<Arc<Lent>>,
}

/// A shared copy, for readers of a run's files.
#[derive(Debug)]
pub(crate) struct SharedSkill {
    /// The folder with the files.
    pub(crate) files: PathBuf,
    /// Its path in the run's folder, as the run's processes see it.
    pub(crate) seen_at: PathBuf,
}

impl SkillPlace {
    fn new(files: PathBuf, seen_at: PathBuf) -> Self {
        Self { files, seen_at, lent: None }
    }
}

impl Shared {
    /// Gives the run a copy of its skill, unless it has one: a spare one, or a new one. Blocks.
    pub(crate) fn copy_to_run(&self, place: &mut SkillPlace, paths: &RunPaths, fingerprint: &str) -> Result<(), Error> {
        if place.files == place.seen_at {
            return Ok(());
        }
        // What a start that was never logged has left may be a part.
        files::remove_tree(&place.seen_at)?;
        let below = place.seen_at.strip_prefix(&paths.root).unwrap_or(&place.seen_at);
        // Moved as a whole is the folder at the top, which nobody else may have made.
        let top = below.iter().next().map(|name| paths.root.join(name)).filter(|top| !top.exists());
        let spare = &self.shared_skills.spare;
        if let Some(top) = &top {
            let now = UNIX_EPOCH + Duration::from_micros(self.clock.now().as_micros().try_into().unwrap_or(0));
            place.lent = spare.take(fingerprint, top, now).map(Arc::new);
        }
        if place.lent.is_some() {
            return Ok(());
        }
        let files = shared_skills::files_in(&place.files)?;
        workspace::copy_skill(&place.files, &files, &place.seen_at)?;
        let of_top = below.iter().skip(1).collect::<PathBuf>();
        if top.is_some()
            && let Err(error) =
                spare.add(fingerprint, |copy| workspace::copy_skill(&place.files, &files, &copy.join(of_top)).map(drop))
        {
            // The run has its own.
            tracing::warn!(error = %chain(&error), "no spare copy of the skill could be made");
        }
        Ok(())
    }

    /// Takes back the copy of a run that has ended, for another one, unless the run changed it. Blocks.
    pub(crate) fn take_back(&self, place: &SkillPlace) {
        if let Some(lent) = &place.lent {
            self.shared_skills.spare.give_back(lent);
        }
    }

    /// Whether a run of this skill uses the copy that it shares with others. What an agent CLI is told to read is changed for its
    /// run, and a run for debugging keeps everything in its own folder: these have a copy of their own.
    pub(crate) fn shares_skill(skill: &Skill, engine: &str, debug: bool) -> bool {
        skill.manifest.entrypoint.kind_on(engine) == EntrypointKind::Script && !debug
    }

    /// The shared copy of an installed skill; none when the skill was changed meanwhile. Blocks.
    pub(crate) fn share_skill(&self, installed: &Installed) -> Result<Option<PathBuf>, Error> {
        let whole = |copy: &Path| is_whole(copy, &installed.skill.fingerprint);
        let wanted = shared_skills::Wanted {
            fingerprint: &installed.skill.fingerprint,
            skill_id: &installed.skill.id,
            whole: &whole,
        };
        if let Some(copy) = self.shared_skills.find(&wanted)? {
            return Ok(Some(copy));
        }
        Ok(self.shared_skills.make(&wanted, |copy| copy_installed(installed, copy))?)
    }

    /// The shared copy that a run was created with, if it is there and whole. Blocks.
    pub(crate) fn shared_skill(&self, state: &RunState) -> Result<Option<PathBuf>, Error> {
        let (fingerprint, skill_id) = (state.skill.fingerprint.as_str(), state.skill.id.as_str());
        let whole = |copy: &Path| is_whole(copy, fingerprint);
        Ok(self.shared_skills.find(&shared_skills::Wanted { fingerprint, skill_id, whole: &whole })?)
    }

    /// The shared copy that stands for the one that a run does not have. Blocks.
    pub(crate) fn shared_skill_shown(&self, state: &RunState) -> Result<Option<SharedSkill>, Error> {
        let paths = self.layout.run(state.run_id);
        let own = paths.skill_copy(&state.engine, &state.skill.id);
        // A temporary skill leaves nothing, and an unknown one has no fingerprint.
        if state.temporary || state.skill.fingerprint.is_empty() || is_there(&own) {
            return Ok(None);
        }
        let seen_at = own.strip_prefix(&paths.root).unwrap_or(&own).to_owned();
        Ok(self.shared_skill(state)?.map(|files| SharedSkill { files, seen_at }))
    }

    /// The skill a run was created with: by its content, wherever it is found first. Blocks.
    pub(crate) fn skill_of(&self, state: &RunState) -> Result<Arc<Skill>, Error> {
        let fingerprint = &state.skill.fingerprint;
        if let Some(skill) = self.known_skills.get(fingerprint) {
            return Ok(skill);
        }
        if let Some(installed) = self.installed_now(state)? {
            self.known_skills.keep(&installed.skill);
            return Ok(installed.skill.clone());
        }
        let own = self.layout.run(state.run_id).skill_copy(&state.engine, &state.skill.id);
        let copy = if is_there(&own) { Some(own) } else { self.shared_skill(state)? };
        match copy.map(|copy| loaded(&copy)).transpose()?.flatten() {
            // A copy that carries the contract was prepared for its engine already, and was whole then.
            Some(installed)
                if installed.skill.fingerprint == *fingerprint || contract::stands_in(&installed.skill.body) =>
            {
                if installed.skill.fingerprint == *fingerprint {
                    self.known_skills.keep(&installed.skill);
                }
                Ok(installed.skill)
            }
            Some(_) | None => Err(changed_copy(state)),
        }
    }

    /// The installed skill that a run was created with, if it still has the same content.
    fn installed_now(&self, state: &RunState) -> Result<Option<Arc<Installed>>, Error> {
        match self.registry.lookup(&state.skill.id) {
            Ok(installed) => Ok(Some(installed).filter(|found| found.skill.fingerprint == state.skill.fingerprint)),
            Err(why) => match why {
                NotUsable::Unread(shortage) => Err(shortage.into()),
                NotUsable::NotFound | NotUsable::Invalid { .. } => Ok(None),
            },
        }
    }

    /// Where the processes of a run's next turn find its skill: in the shared copy, or in its own if it has one. Blocks.
    pub(crate) fn skill_place(&self, state: &RunState, skill: &Skill, paths: &RunPaths) -> Result<SkillPlace, Error> {
        let seen_at = paths.skill_copy(&state.engine, &state.skill.id);
        // What an earlier turn changed in the run's own copy stays changed.
        let shares = Self::shares_skill(skill, &state.engine, state.options.debug) && state.turns == 0;
        if shares && let Some(files) = self.shared_skill(state)? {
            return Ok(SkillPlace::new(files, seen_at));
        }
        if is_there(&seen_at) {
            return Ok(SkillPlace::new(seen_at.clone(), seen_at));
        }
        if let Some(files) = self.shared_skill(state)? {
            return Ok(SkillPlace::new(files, seen_at));
        }
        // Somebody has changed or removed the copy; the skill itself may still be there.
        let made = match self.installed_now(state)? {
            Some(installed) => self.share_skill(&installed)?,
            None => None,
        };
        made.map(|files| SkillPlace::new(files, seen_at)).ok_or_else(|| changed_copy(state))
    }
}

/// The package in this folder; none if it is broken.
fn loaded(folder: &Path) -> Result<Option<Installed>, files::Error> {
    match registry::load_dir(folder, Intake::Installed) {
        Ok(installed) => Ok(Some(installed)),
        Err(why) => why.shortage(folder).map_or(Ok(None), Err),
    }
}

/// Whether a run has its own copy: every package has this file, and a folder alone may be there for the shared copy.
fn is_there(copy: &Path) -> bool {
    copy.join("SKILL.md").is_file()
}

fn changed_copy(state: &RunState) -> Error {
    Error::Corrupt {
        run: state.run_id.to_string(),
        message: "its copy of the skill is not what it was created with".into(),
    }
}

/// Whether a folder holds exactly the content of this fingerprint.
pub(crate) fn is_whole(copy: &Path, fingerprint: &str) -> Result<bool, files::Error> {
    Ok(loaded(copy)?.is_some_and(|installed| {
        installed.skill.fingerprint == fingerprint && shared_skills::holds_only(copy, &installed.files)
    }))
}

/// Copies an installed skill, or writes one that was made from an agent's folder. Blocks.
pub(crate) fn copy_installed(installed: &Installed, to: &Path) -> Result<(), files::Error> {
    match &installed.generated {
        Some(generated) => workspace::write_skill(generated, to).map(drop),
        None => workspace::copy_skill(&installed.dir, &installed.files, to).map(drop),
    }
}
