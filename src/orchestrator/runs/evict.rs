//! Files of runs that are shared are given up on this disk: those of deleted runs, and the least recently used ones when they take
//! too much room.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tracing::{info, warn};

use crate::domain::causes::chain;
use crate::domain::ids::RunId;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::parse_head;
use crate::orchestrator::run_files::{Cached, Sizes, cached};
use crate::orchestrator::runs::evict_skills::{self, Copies};
use crate::orchestrator::shared::Shared;
use crate::store::IndexKey;

const EVERY: Duration = Duration::from_secs(60);
/// What was used in this time stays: whoever asked for it may not have opened it yet.
const UNUSED_FOR: Duration = Duration::from_secs(600);
/// The same when the disk is nearly full.
const UNUSED_FOR_WHEN_FULL: Duration = Duration::from_secs(60);

/// Runs of which it is looked at once whether they were deleted.
const LOOKED_AT: usize = 500;

/// What is known from the last time.
#[derive(Default)]
struct Known {
    sizes: Sizes,
    /// Runs up to this one were looked at.
    up_to: Option<RunId>,
    copies: Copies,
}

/// What was given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Evicted {
    runs: u64,
    bytes: u64,
}

/// Does so now and then, until the service ends.
pub(crate) async fn evict_often(shared: Weak<Shared>) {
    let mut known = Known::default();
    loop {
        let Some(held) = shared.upgrade().filter(|shared| !shared.closing.is_cancelled()) else { return };
        match evict(&held, &mut known).await {
            Ok(Evicted { runs: 0, .. }) => {}
            Ok(Evicted { runs, bytes }) => info!(runs, bytes, "removed cached files of runs from this disk"),
            Err(error) => warn!(error = %chain(&error), "cached files of runs could not be removed; trying again"),
        }
        let replaced_for = if lacks_room(&held) { UNUSED_FOR_WHEN_FULL } else { UNUSED_FOR };
        match evict_skills::evict(&held, &mut known.copies, replaced_for).await {
            Ok(0) => {}
            Ok(bytes) => info!(bytes, "removed copies of skills from this disk"),
            Err(error) => warn!(error = %chain(&error), "copies of skills could not be removed; trying again"),
        }
        let (closing, now) = (held.closing.clone(), held.evict_now.clone());
        drop(held);
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = now.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

async fn evict(shared: &Arc<Shared>, known: &mut Known) -> Result<Evicted, Error> {
    let (layout, mut sizes) = (shared.layout.clone(), std::mem::take(&mut known.sizes));
    let look = move || (cached(&layout, &mut sizes), sizes);
    let mut here: Vec<Cached>;
    (here, known.sizes) = shared.blocking.run("look for cached files of runs", look).await?;
    let mut runs: Vec<RunId> = here.iter().map(|cached| cached.run).filter(|run| Some(*run) > known.up_to).collect();
    runs.sort_unstable();
    let is_all = runs.len() <= LOOKED_AT;
    runs.truncate(LOOKED_AT);
    // Behind the last one, the first is next.
    known.up_to = runs.last().copied().filter(|_| !is_all);
    let mut evicted = Evicted::default();
    let mut deleted = Vec::new();
    for run in runs {
        if shared.store.index(&IndexKey::Run(run)).await?.is_none() && !shared.live.contains(run) {
            deleted.push(run);
        }
    }
    for run in &deleted {
        shared.sealer.forget(*run);
        evicted.bytes += shared.files().evict_deleted(*run).await?;
        evicted.runs += 1;
    }
    here.retain(|cached| !deleted.contains(&cached.run));
    let mut total: u64 = here.iter().map(|cached| cached.bytes).sum();
    let most = shared.settings.several.cache_max_bytes;
    for cached in here {
        let is_full = lacks_room(shared);
        let unused_for = if is_full { UNUSED_FOR_WHEN_FULL } else { UNUSED_FOR };
        if (total <= most && !is_full) || cached.unused_for < unused_for {
            // All that follow were used later.
            break;
        }
        if let Some(bytes) = evict_run(shared, cached.run, unused_for).await? {
            total = total.saturating_sub(cached.bytes);
            evicted.bytes += bytes;
            evicted.runs += 1;
        }
    }
    shared.cached_bytes.store(total, std::sync::atomic::Ordering::Relaxed);
    Ok(evicted)
}

/// Whether the disk has less than twice what must stay free.
fn lacks_room(shared: &Shared) -> bool {
    let floor = shared.settings.limits.min_free_bytes.saturating_mul(2);
    files::free_bytes(shared.layout.data()).is_ok_and(|free| free < floor)
}

/// Gives the files of a run up, if nobody works on it here.
async fn evict_run(shared: &Arc<Shared>, run: RunId, unused_for: Duration) -> Result<Option<u64>, Error> {
    let _lock = shared.run_locks.lock(run).await;
    if shared.live.contains(run) {
        return Ok(None);
    }
    let Some(row) = shared.store.index(&IndexKey::Run(run)).await? else { return Ok(None) };
    let bytes = shared.files().evict(&parse_head(run, &row)?.state, unused_for).await?;
    Ok((bytes > 0).then_some(bytes))
}
