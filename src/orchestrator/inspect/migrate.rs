//! Copies what one store holds into another: the rows and events of every run. Files stay where they are.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::future::join_all;

use crate::domain::cache_key::sha256_bytes;
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::RunState;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::idempotency::idempotency_row;
use crate::orchestrator::log::journal::parse_head;
use crate::orchestrator::shared::backups::Copied;
use crate::store::{Append, AppendResult, BoxFuture, EventBatch, EventStore, IndexChange, IndexKey};

/// Rows looked at in one step.
const PAGE: usize = 256;
/// Bytes of events that are read at once.
const PAGE_BYTES: usize = 512 * 1024;
/// Appends and their bytes that are under way at once: many share one sync.
const UNDER_WAY: usize = 512;
const UNDER_WAY_BYTES: usize = 4 * 1024 * 1024;

/// Copies everything from a store that nobody writes to, newest run first, and tells how far it has come.
pub(crate) async fn copy_store(
    from: &dyn EventStore,
    to: &dyn EventStore,
    told: &(dyn Fn(Copied) + Sync),
) -> Result<Copied, Error> {
    let open: BTreeSet<RunId> = from.open_runs().await?.into_iter().collect();
    let mut copying = Copying { to, under_way: Vec::new(), bytes: 0 };
    let (mut copied, mut before) = (Copied::default(), None);
    loop {
        let rows = from.runs(before, PAGE).await?;
        let Some((last, _)) = rows.last() else { break };
        before = Some(*last);
        for (run, row) in rows {
            copied.bytes += copying.run(from, run, row, open.contains(&run)).await?;
            copied.runs += 1;
            told(copied);
        }
    }
    copying.settle().await?;
    Ok(copied)
}

/// Appends that are under way.
struct Copying<'a> {
    to: &'a dyn EventStore,
    under_way: Vec<BoxFuture<'static, AppendResult>>,
    bytes: usize,
}

impl Copying<'_> {
    /// Copies a run; returns how many bytes of events there were.
    async fn run(&mut self, from: &dyn EventStore, run: RunId, row: Bytes, is_open: bool) -> Result<u64, Error> {
        let state = parse_head(run, &row)?.state;
        let mut index = rows_of(from, &state).await?;
        index.push(IndexChange::Put(IndexKey::Run(run), row));
        if is_open {
            index.push(IndexChange::Put(IndexKey::Open(run), Bytes::new()));
        }
        let (end, mut head, mut bytes) = (from.head(&run).await?, Seq::START, 0);
        while head < end {
            let page = from.read(&run, head, PAGE_BYTES).await?;
            if page.is_empty() {
                let message = format!("it ends at {head}, before {end}");
                return Err(Error::Corrupt { run: run.to_string(), message });
            }
            for batch in page {
                bytes += u64::try_from(batch.ndjson.len()).unwrap_or(u64::MAX);
                let (expected_head, last) = (head, batch.last());
                head = last;
                // The row comes with the last events, so a run is there whole or has no row.
                let rows = if last == end { std::mem::take(&mut index) } else { Vec::new() };
                self.append(append(run, expected_head, vec![batch], rows)).await?;
            }
        }
        if !index.is_empty() {
            self.append(append(run, head, Vec::new(), index)).await?;
        }
        Ok(bytes)
    }

    /// Sends an append after those before it, and waits when there are many.
    async fn append(&mut self, append: Append) -> Result<(), Error> {
        self.bytes += append.events.iter().map(|batch| batch.ndjson.len()).sum::<usize>();
        self.under_way.push(self.to.append(append));
        if self.under_way.len() >= UNDER_WAY || self.bytes >= UNDER_WAY_BYTES {
            self.settle().await?;
        }
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), Error> {
        self.bytes = 0;
        for appended in join_all(self.under_way.drain(..)).await {
            appended?;
        }
        Ok(())
    }
}

fn append(run: RunId, expected_head: Seq, events: Vec<EventBatch>, index: Vec<IndexChange>) -> Append {
    Append { run, expected_head, events, index, require_absent: None, for_others: Default::default() }
}

/// The rows that lead to the run.
async fn rows_of(from: &dyn EventStore, state: &RunState) -> Result<Vec<IndexChange>, Error> {
    let cache = state.shared_key().and_then(sha256_bytes).map(IndexKey::Cache);
    let idempotency = state.idempotency_sha256.as_deref().and_then(idempotency_row);
    let mut rows = Vec::new();
    for key in [Some(IndexKey::Request(state.request_id)), cache, idempotency].into_iter().flatten() {
        if let Some(value) = from.index(&key).await? {
            rows.push(IndexChange::Put(key, value));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    #[tokio::test]
    async fn a_row_that_cannot_be_read_stops_the_copy_and_is_named() {
        let (from, to) = (MemoryStore::default(), MemoryStore::default());
        let run = crate::store::contract::run(7);
        let index = vec![IndexChange::Put(IndexKey::Run(run), Bytes::from_static(b"{"))];
        from.append(append(run, Seq::START, Vec::new(), index)).await.unwrap();
        let failed = copy_store(&from, &to, &|_| {}).await.unwrap_err();
        assert!(failed.to_string().contains(&run.to_string()), "{failed}");
        assert_eq!(to.runs(None, 9).await.unwrap(), []);
    }
}
