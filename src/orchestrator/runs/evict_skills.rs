//! Copies of skills on this disk that no run needs any more go, where services share files: what another run needs is fetched again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::ids::RunId;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::parse_head;
use crate::orchestrator::shared::Shared;
use crate::registry::Entry;
use crate::store::IndexKey;

/// What is known from the last time.
#[derive(Default)]
pub(super) struct Copies {
    /// Since when a content is that of no installed skill.
    replaced: HashMap<String, Instant>,
    /// The content of the skill that a run was created with. It is never another one.
    of_runs: HashMap<RunId, String>,
}

/// Removes the copies of skills that were replaced so long ago, and that neither a run needs that is not over nor one whose folder is on
/// this disk. The bytes that this freed.
pub(super) async fn evict(shared: &Arc<Shared>, copies: &mut Copies, replaced_for: Duration) -> Result<u64, Error> {
    let owned = shared.clone();
    let look = move || {
        let mut there = owned.shared_skills.contents();
        let installed = if there.is_empty() { Vec::new() } else { owned.registry.list()? };
        for entry in &installed {
            if let Entry::Valid(installed) = entry {
                there.remove(&installed.skill.fingerprint);
            }
        }
        Ok::<_, Error>(there)
    };
    let replaced = shared.blocking.run("look at the copies of skills", look).await??;
    let now = Instant::now();
    copies.replaced.retain(|content, _| replaced.contains(content));
    for content in replaced {
        copies.replaced.entry(content).or_insert(now);
    }
    let old = |since: &Instant| now.saturating_duration_since(*since) >= replaced_for;
    let mut unneeded: BTreeSet<String> =
        copies.replaced.iter().filter(|(_, since)| old(since)).map(|(content, _)| content.clone()).collect();
    if unneeded.is_empty() {
        return Ok(0);
    }
    // Most rows are read while runs are created.
    copies.look_up(shared).await?;
    // Nobody here is on the way to its row now. Elsewhere, nobody was when the content was replaced.
    let alone = shared.sharing.write().await;
    copies.look_up(shared).await?;
    for content in copies.of_runs.values() {
        unneeded.remove(content);
    }
    let owned = shared.clone();
    let set_aside = move || owned.shared_skills.set_aside_others(|content| !unneeded.contains(content));
    let aside = shared.blocking.run("set aside copies of skills", set_aside).await?;
    drop(alone);
    let remove = move || aside.iter().map(|folder| files::remove_tree(folder)).sum::<Result<u64, _>>();
    Ok(shared.blocking.run("remove copies of skills", remove).await??)
}

impl Copies {
    /// Looks up the skills of runs that are not over, and of those whose folder is here.
    async fn look_up(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        let layout = shared.layout.clone();
        let here = move || {
            let names = std::fs::read_dir(layout.runs()).into_iter().flatten().flatten();
            names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect::<HashSet<RunId>>()
        };
        let mut runs = shared.blocking.run("list the folders of runs", here).await?;
        runs.extend(shared.store.open_runs().await?);
        self.of_runs.retain(|run, _| runs.contains(run));
        for run in runs {
            if self.of_runs.contains_key(&run) {
                continue;
            }
            // Without a row, it was deleted.
            if let Some(row) = shared.store.index(&IndexKey::Run(run)).await? {
                let state = parse_head(run, &row)?.state;
                if !state.temporary {
                    self.of_runs.insert(run, state.skill.fingerprint);
                }
            }
        }
        Ok(())
    }
}
