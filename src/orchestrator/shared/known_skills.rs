//! Skills by what is in them: a fingerprint names one content for ever, so what was read once is not read again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::skill::Skill;

/// Most skills that are kept in memory.
const KEPT: usize = 256;

/// The skills that were used last.
#[derive(Default)]
pub(crate) struct KnownSkills(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_fingerprint: HashMap<String, Arc<Skill>>,
    oldest_first: VecDeque<String>,
}

impl KnownSkills {
    pub(crate) fn get(&self, fingerprint: &str) -> Option<Arc<Skill>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_fingerprint.get(fingerprint).cloned()
    }

    pub(crate) fn keep(&self, skill: &Arc<Skill>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.by_fingerprint.insert(skill.fingerprint.clone(), skill.clone()).is_some() {
            return;
        }
        kept.oldest_first.push_back(skill.fingerprint.clone());
        if kept.oldest_first.len() > KEPT
            && let Some(oldest) = kept.oldest_first.pop_front()
        {
            kept.by_fingerprint.remove(&oldest);
        }
    }
}
