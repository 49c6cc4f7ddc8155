//! Shared files that nothing needs are removed: by one service at a time, page by page, and never faster than the service has to.
//!
//! Why none is lost that somebody is about to need: see `store/removals.rs`.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use crate::blobs::{Blob, Blobs};
use crate::domain::causes::chain;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::shared::Shared;
use crate::store::removals::BEGUN_FOR;
use crate::store::{Cluster, FileHash, Turn};

/// From one look at all files to the next.
const EVERY: Duration = Duration::from_secs(3600);
/// How often a service asks whether it is its turn.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// Files that are looked at together, and those that are removed together.
const PAGE: usize = 500;
const AT_ONCE: usize = 100;
/// Between two pages.
const PAUSE: Duration = Duration::from_millis(500);
/// After so long a removal that was begun is left to another turn.
const REMOVED_WITHIN: Duration = Duration::from_secs(BEGUN_FOR.as_secs() / 5);

/// By how much the clocks of the store and of the shared files may differ, for [`Turn::store_age`].
const CLOCKS_DIFFER_SECONDS: u64 = 60;

/// What a turn has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Removed {
    files: u64,
    bytes: u64,
}

impl Orchestrator {
    /// Has shared files that nothing needs looked for soon, and what this disk holds of deleted runs, and not only when it is time.
    pub(crate) async fn look_for_unneeded_files(&self) -> Result<(), Error> {
        if let Some(member) = &self.shared.member {
            member.cluster.look_again().await?;
            self.shared.clean_now.notify_one();
            self.shared.evict_now.notify_one();
        }
        Ok(())
    }
}

/// Does so whenever it is this service's turn, until it ends.
pub(crate) async fn clean_often(shared: Weak<Shared>) {
    loop {
        let Some(held) = shared.upgrade().filter(|shared| !shared.closing.is_cancelled()) else { return };
        match take_turn(&held).await {
            Ok(None) => {}
            Ok(Some(Removed { files: 0, .. })) => debug!("no shared file can be removed"),
            Ok(Some(Removed { files, bytes })) => info!(files, bytes, "removed shared files that nothing needed"),
            Err(error) => warn!(error = %chain(&error), "unneeded shared files could not be removed; trying again"),
        }
        let (closing, now) = (held.closing.clone(), held.clean_now.clone());
        drop(held);
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = now.notified() => {}
            () = tokio::time::sleep(ASK_EVERY) => {}
        }
    }
}

async fn take_turn(shared: &Arc<Shared>) -> Result<Option<Removed>, Error> {
    let (Some(member), Some(blobs)) = (&shared.member, &shared.blobs) else { return Ok(None) };
    if !member.has_lease() {
        return Ok(None);
    }
    let cluster = &*member.cluster;
    let Some(turn) = cluster.take_turn(EVERY).await? else { return Ok(None) };
    let grace = Duration::from_secs(shared.settings.several.shared_files_grace_seconds);
    clean(cluster, &**blobs, turn, grace, || shared.closing.is_cancelled()).await.map(Some)
}

async fn clean(
    cluster: &dyn Cluster,
    blobs: &dyn Blobs,
    turn: Turn,
    grace: Duration,
    stopped: impl Fn() -> bool,
) -> Result<Removed, Error> {
    let mut removed = Removed::default();
    let began = Instant::now();
    let left_over = cluster.begun_long_ago().await?;
    remove(cluster, blobs, began, left_over.iter().map(|sha256| Blob { sha256: *sha256, size: 0 }), &mut removed)
        .await?;
    let mut after = turn.after;
    loop {
        let listed = blobs.list(after, PAGE).await?;
        // What is older than the store was not made for it. Its clock may be another one.
        let oldest = turn.store_age.as_secs().saturating_add(CLOCKS_DIFFER_SECONDS);
        let due = listed.iter().filter(|file| (grace.as_secs()..=oldest).contains(&file.age));
        let due: Vec<Blob> = due.map(|file| file.blob).collect();
        for some in due.chunks(AT_ONCE) {
            let began = Instant::now();
            let hashes: Vec<FileHash> = some.iter().map(|blob| blob.sha256).collect();
            let begun = cluster.begin_removal(&hashes).await?;
            let begun = some.iter().copied().filter(|blob| begun.contains(&blob.sha256));
            remove(cluster, blobs, began, begun, &mut removed).await?;
        }
        let is_all = listed.len() < PAGE;
        after = listed.last().map(|file| file.blob.sha256).filter(|_| !is_all);
        if !cluster.looked_at(after).await? || is_all || stopped() {
            return Ok(removed);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Removes files whose removal was begun after `began`, and ends it. What could not be removed stays begun, and is tried again by
/// another turn.
async fn remove(
    cluster: &dyn Cluster,
    blobs: &dyn Blobs,
    began: Instant,
    files: impl Iterator<Item = Blob>,
    removed: &mut Removed,
) -> Result<(), Error> {
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    for blob in files {
        // Others may do it by now, and somebody may have put it anew when they had: it is looked at just before.
        if began.elapsed() > REMOVED_WITHIN {
            left.push(blob.sha256);
            continue;
        }
        match blobs.remove(&blob).await {
            Ok(()) => {
                gone.push(blob.sha256);
                removed.files += 1;
                removed.bytes += blob.size;
            }
            Err(error) => warn!(error = %chain(&error), "a shared file could not be removed; trying again later"),
        }
    }
    if !gone.is_empty() || !left.is_empty() {
        cluster.end_removal(&gone, &left).await?;
    }
    Ok(())
}
