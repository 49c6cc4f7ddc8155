//! What is known to be damaged in a data folder: found by a reader or by a check of everything, kept until it is found whole.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{error, info, warn};

use crate::bounded;
use crate::domain::causes::chain;
use crate::domain::ids::RunId;
use crate::domain::integrity::DamagedFile;
use crate::files;
use crate::orchestrator::environment::{Clock, WallClock};
use crate::workspace::Layout;

/// Most files of one run, and most runs, that are named; there may be more.
const FILES_MAX: usize = 20;
const RUNS_MAX: usize = 1000;
/// How many deleted runs are remembered. A finding about one deleted longer ago goes with the next check of everything.
const DELETED_MAX: usize = 10_000;

type Findings = BTreeMap<RunId, Vec<DamagedFile>>;

/// The findings of a data folder; a file keeps them over a restart.
pub(crate) struct Damage {
    place: PathBuf,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    found: Findings,
    deleted: Deleted,
}

/// The runs that were deleted last. Who began to read one before may miss its files, and that is no damage.
#[derive(Default)]
struct Deleted {
    runs: HashSet<RunId>,
    order: VecDeque<RunId>,
}

impl Deleted {
    fn add(&mut self, run: RunId) {
        if !self.runs.insert(run) {
            return;
        }
        self.order.push_back(run);
        if self.order.len() > DELETED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.runs.remove(&oldest);
        }
    }
}

impl Damage {
    pub(crate) fn of(layout: &Layout) -> Self {
        let place = layout.damage();
        let text = files::read_optional(&place).ok().flatten().unwrap_or_default();
        // Whatever is forgotten is found again when it is next read.
        let found = bounded::json::from_slice(&text).unwrap_or_default();
        Self { known: Mutex::new(Known { found, deleted: Deleted::default() }), place }
    }

    /// A file of a run is not what it was. Told once. Blocks for a moment the first time.
    pub(crate) fn note(&self, run: RunId, file: &str, message: &str) {
        let mut known = self.known();
        if known.deleted.runs.contains(&run) {
            return;
        }
        let found = &mut known.found;
        let no_room = found.len() >= RUNS_MAX && !found.contains_key(&run);
        let of_run = found.entry(run).or_default();
        if no_room || of_run.len() >= FILES_MAX || of_run.iter().any(|finding| finding.file == file) {
            found.retain(|_, findings| !findings.is_empty());
            return;
        }
        let (file, message) = (file.to_owned(), message.to_owned());
        error!(run.id = %run, file, reason = message, "a stored file is damaged");
        of_run.push(DamagedFile { file, message, found_at: WallClock.now() });
        self.save(found);
    }

    /// A file of a run was found whole.
    pub(crate) fn clear(&self, run: RunId, file: &str) {
        self.keep(run, |finding| finding.file != file);
    }

    /// The whole run was found whole.
    pub(crate) fn clear_run(&self, run: RunId) {
        self.keep(run, |_| false);
    }

    /// The row of a run is gone, and its files go now: what readers miss from here on is no damage.
    pub(crate) fn deleted(&self, run: RunId) {
        self.known().deleted.add(run);
        self.clear_run(run);
    }

    /// Whether anything of a run is damaged, so that what is found whole is to be told.
    pub(crate) fn has(&self, run: RunId) -> bool {
        self.known().found.contains_key(&run)
    }

    fn keep(&self, run: RunId, stays: impl FnMut(&DamagedFile) -> bool) {
        let found = &mut self.known().found;
        let Some(of_run) = found.get_mut(&run) else { return };
        let before = of_run.len();
        of_run.retain(stays);
        if of_run.len() == before {
            return;
        }
        info!(run.id = %run, left = of_run.len(), "what was damaged is whole again, or gone");
        found.retain(|_, findings| !findings.is_empty());
        self.save(found);
    }

    /// What is damaged of a run.
    pub(crate) fn of_run(&self, run: RunId) -> Vec<DamagedFile> {
        self.known().found.get(&run).cloned().unwrap_or_default()
    }

    /// The damaged runs.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.known().found.keys().copied().collect()
    }

    fn save(&self, found: &Findings) {
        let text = serde_json::to_vec_pretty(found).unwrap_or_default();
        if let Err(error) = files::write_durably(&self.place, &text) {
            warn!(error = %chain(&error), "the list of damaged files could not be written");
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Every change leaves a usable list.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
    #[test]
    fn a_reader_who_misses_files_of_a_deleted_run_has_found_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let damage = Damage::of(&Layout::new(folder.path()));
        let run = |number: usize| RunId(Uuid::from_u128(number as u128));
        damage.note(run(0), "input.json", "it has changed");
        for number in 0..=DELETED_MAX {
            damage.deleted(run(number));
            damage.deleted(run(number));
            damage.note(run(number), "input.json", "it is gone");
        }
        assert_eq!(damage.runs(), []);
        // The one that was deleted longest ago is forgotten, so that memory stays bounded.
        assert_eq!(damage.known().deleted.runs.len(), DELETED_MAX);
        assert!(!damage.known().deleted.runs.contains(&run(0)));
    }
}
