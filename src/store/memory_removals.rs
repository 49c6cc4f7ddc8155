//! Removals of shared files on a store in memory.

use std::future::ready;
use std::time::Duration;

use uuid::Uuid;

use super::memory_cluster::Several;
use super::memory_node::MemoryNode;
use super::memory_removed::Removal;
use super::removals::{BEGUN_FOR, FileHash, Removals, Turn};
use super::{BoxFuture, Error};

/// A turn of which nothing is heard for so long is over.
const TURN: Duration = Duration::from_secs(300);

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Several {
    fn take_turn(&mut self, me: Uuid, every: Duration) -> Option<Turn> {
        let (now, removed) = ((self.clock)(), &mut self.removed);
        if removed.turn.is_some_and(|(whose, until)| whose != me && until >= now) {
            return None;
        }
        let is_due = removed.all_looked_at.is_none_or(|moment| moment <= now.saturating_sub(micros(every)));
        if removed.looked_at.is_none() && !is_due {
            return None;
        }
        removed.turn = Some((me, now.saturating_add(micros(TURN))));
        Some(Turn { after: removed.looked_at, store_age: Duration::MAX })
    }

    fn looked_at(&mut self, me: Uuid, up_to: Option<FileHash>) -> bool {
        let (now, removed) = ((self.clock)(), &mut self.removed);
        if removed.turn.is_none_or(|(whose, _)| whose != me) {
            return false;
        }
        removed.looked_at = up_to;
        removed.turn = up_to.map(|_| (me, now.saturating_add(micros(TURN))));
        if up_to.is_none() {
            removed.all_looked_at = Some(now);
        }
        true
    }

    fn begin_removal(&mut self, me: Uuid, among: &[FileHash]) -> Vec<FileHash> {
        let now = (self.clock)();
        let mut begun = Vec::new();
        for file in among {
            let is_needed = self.files.iter().any(|(needed, _)| needed == file) || self.records.need(file);
            let before = self.removed.files.get(file);
            let is_others = before.is_some_and(|removal| removal.number.is_none() && removal.begun_by != me);
            if !is_needed && !is_others {
                self.removed.files.insert(*file, Removal { begun_by: me, begun_at: now, number: None });
                begun.push(*file);
            }
        }
        begun
    }

    fn begun_long_ago(&mut self, me: Uuid) -> Vec<FileHash> {
        let now = (self.clock)();
        let before = now.saturating_sub(micros(BEGUN_FOR));
        let old = self.removed.files.iter_mut().filter(|(_, it)| it.number.is_none() && it.begun_at < before);
        old.map(|(file, removal)| {
            (removal.begun_by, removal.begun_at) = (me, now);
            *file
        })
        .collect()
    }

    fn end_removal(&mut self, me: Uuid, gone: &[FileHash], left: &[FileHash]) {
        let removed = &mut self.removed;
        let is_mine = |removal: &Removal| removal.begun_by == me && removal.number.is_none();
        removed.files.retain(|file, removal| !(left.contains(file) && is_mine(removal)));
        removed.count += 1;
        for file in gone {
            if let Some(removal) = removed.files.get_mut(file).filter(|removal| is_mine(removal)) {
                removal.number = Some(removed.count);
            }
        }
    }
}

impl MemoryNode {
    fn as_me<'a, T: Send + 'a>(&self, ask: impl FnOnce(&mut Several, Uuid) -> T) -> BoxFuture<'a, Result<T, Error>> {
        let asked = self.lease().and_then(|lease| self.several(|several| Ok(ask(several, lease.incarnation))));
        Box::pin(ready(asked))
    }
}

impl Removals for MemoryNode {
    fn take_turn(&self, every: Duration) -> BoxFuture<'_, Result<Option<Turn>, Error>> {
        self.as_me(|several, me| several.take_turn(me, every))
    }

    fn looked_at(&self, up_to: Option<FileHash>) -> BoxFuture<'_, Result<bool, Error>> {
        self.as_me(|several, me| several.looked_at(me, up_to))
    }

    fn look_again(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(ready(self.several(|several| {
            several.removed.all_looked_at = None;
            Ok(())
        })))
    }

    fn begin_removal(&self, among: &[FileHash]) -> BoxFuture<'_, Result<Vec<FileHash>, Error>> {
        self.as_me(|several, me| several.begin_removal(me, among))
    }

    fn begun_long_ago(&self) -> BoxFuture<'_, Result<Vec<FileHash>, Error>> {
        self.as_me(|several, me| several.begun_long_ago(me))
    }

    fn end_removal(&self, removed: &[FileHash], left: &[FileHash]) -> BoxFuture<'_, Result<(), Error>> {
        self.as_me(|several, me| several.end_removal(me, removed, left))
    }
}
