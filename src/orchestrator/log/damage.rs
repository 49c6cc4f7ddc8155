//! What is known to be damaged in a data folder: found by a reader or by a check of everything, kept until it is found whole.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{error, info, warn};

use crate::domain::causes::chain;
use crate::domain::ids::RunId;
use crate::domain::integrity::DamagedFile;
use crate::files;
use crate::orchestrator::environment::{Clock, WallClock};
use crate::workspace::Layout;

/// Most files of one run, and most runs, that are named; there may be more.
const FILES_MAX: usize = 20;
const RUNS_MAX: usize = 1000;

type Findings = BTreeMap<RunId, Vec<DamagedFile>>;

/// The findings of a data folder; a file keeps them over a restart.
pub(crate) struct Damage {
    place: PathBuf,
    found: Mutex<Findings>,
}

impl Damage {
    pub(crate) fn of(layout: &Layout) -> Self {
        let place = layout.damage();
        let text = files::read_optional(&place).ok().flatten().unwrap_or_default();
        // Whatever is forgotten is found again when it is next read.
        Self { found: Mutex::new(serde_json::from_slice(&text).unwrap_or_default()), place }
    }

    /// A file of a run is not what it was. Told once. Blocks for a moment the first time.
    pub(crate) fn note(&self, run: RunId, file: &str, message: &str) {
        let mut found = self.found();
        let known = found.len() >= RUNS_MAX && !found.contains_key(&run);
        let of_run = found.entry(run).or_default();
        if known || of_run.len() >= FILES_MAX || of_run.iter().any(|finding| finding.file == file) {
            found.retain(|_, findings| !findings.is_empty());
            return;
        }
        let (file, message) = (file.to_owned(), message.to_owned());
        error!(run.id = %run, file, reason = message, "a stored file is damaged");
        of_run.push(DamagedFile { file, message, found_at: WallClock.now() });
        self.save(&found);
    }

    /// A file of a run was found whole.
    pub(crate) fn clear(&self, run: RunId, file: &str) {
        self.keep(run, |finding| finding.file != file);
    }

    /// The whole run was found whole, or is gone.
    pub(crate) fn clear_run(&self, run: RunId) {
        self.keep(run, |_| false);
    }

    /// Whether anything of a run is damaged, so that what is found whole is to be told.
    pub(crate) fn has(&self, run: RunId) -> bool {
        self.found().contains_key(&run)
    }

    fn keep(&self, run: RunId, stays: impl FnMut(&DamagedFile) -> bool) {
        let mut found = self.found();
        let Some(of_run) = found.get_mut(&run) else { return };
        let before = of_run.len();
        of_run.retain(stays);
        if of_run.len() == before {
            return;
        }
        info!(run.id = %run, left = of_run.len(), "what was damaged is whole again, or gone");
        found.retain(|_, findings| !findings.is_empty());
        self.save(&found);
    }

    /// What is damaged of a run.
    pub(crate) fn of_run(&self, run: RunId) -> Vec<DamagedFile> {
        self.found().get(&run).cloned().unwrap_or_default()
    }

    /// The damaged runs.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.found().keys().copied().collect()
    }

    fn save(&self, found: &Findings) {
        let text = serde_json::to_vec_pretty(found).unwrap_or_default();
        if let Err(error) = files::write_durably(&self.place, &text) {
            warn!(error = %chain(&error), "the list of damaged files could not be written");
        }
    }

    fn found(&self) -> MutexGuard<'_, Findings> {
        // Every change leaves a usable list.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_is_found_is_kept_over_a_restart_until_it_is_whole_again() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let (one, other) = (RunId(Uuid::from_u128(1)), RunId(Uuid::from_u128(2)));
        let damage = Damage::of(&layout);
        for run in [one, other, one] {
            damage.note(run, "input.json", "it has changed");
        }
        damage.note(one, "skill.json", "it is gone");
        let files = |damage: &Damage, run| damage.of_run(run).into_iter().map(|it| it.file).collect::<Vec<_>>();
        let again = Damage::of(&layout);
        assert_eq!(
            (files(&again, one), again.runs()),
            (vec!["input.json".into(), "skill.json".into()], vec![one, other])
        );
        again.clear(one, "input.json");
        again.clear_run(other);
        let again = Damage::of(&layout);
        assert_eq!((files(&again, one), again.runs()), (vec!["skill.json".to_owned()], vec![one]));
    }
}
