//! What readers ask: heads, events, rows, lists and counts.

use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;

use super::bounds::{MOST_STORED, bounded};
use super::cell::cell;
use super::filter::Condition;
use super::link::Link;
use super::row_key::{RowKey, key_of};
use crate::domain::ids::{RunId, Seq};
use crate::domain::statechart::Status;
use crate::store::batch::Page;
use crate::store::{Error, EventBatch, IndexKey, RunCounts, RunFilter};

const HEAD: &str = "select head from runs where run = $1";
const HEADS: &str = "select run, head, deleted_at is not null from runs where run = any($1)";
const OPEN: &str = "select run from runs where open order by run";
const STATE: &str = concat!("select ", bounded!("state"), " from runs where run = $1 and state is not null");
const IS_OPEN: &str = "select ''::bytea from runs where run = $1 and open";
const REMOVALS: &str = "select removals from file_clean_up";
const ROW: &str = concat!("select ", bounded!("value"), " from index_rows where kind = $1 and key = $2");

/// Batches up to the one with which the page is full; only lengths are looked at for that.
const EVENTS: &str = concat!(
    "select last, count, ",
    bounded!("ndjson"),
    ", octet_length(ndjson) from ( \
       select last, count, ndjson, sum(octet_length(ndjson)) over (order by last) - octet_length(ndjson) as before \
       from (select last, count, ndjson from events where run = $1 and last > $2 order by last limit $4) as next) as page \
     where before <= $3 order by last"
);

/// Batches that are looked at in one query.
const BATCHES: i64 = 256;

/// Rows that are fetched in one query.
const ROWS: usize = 1000;

/// Asks the database on behalf of readers, on one of a few connections.
#[derive(Clone)]
pub(super) struct Questions {
    links: Arc<[Link]>,
}

fn seq(stored: i64) -> Seq {
    Seq(u64::try_from(stored).unwrap_or_default())
}

fn stored(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

impl Questions {
    pub(super) fn new(links: Vec<Link>) -> Questions {
        Questions { links: links.into() }
    }

    /// The same run always on the same connection: what one reader asks stays in order, and others are not held up by it.
    pub(super) fn link(&self, run: Uuid) -> &Link {
        let chosen = usize::from(run.as_bytes()[15]) % self.links.len().max(1);
        &self.links[chosen]
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.links.iter().find_map(Link::trouble)
    }

    pub(super) async fn head(&self, run: RunId) -> Result<Seq, Error> {
        let ask = self.link(run.0).ask("read a head of", move |reader| {
            Box::pin(async move {
                let statement = reader.prepared(HEAD).await?;
                reader.client().query_opt(&statement, &[&run.0]).await
            })
        });
        ask.await?.map_or(Ok(Seq::START), |row| Ok(seq(cell(&row, 0)?)))
    }

    /// The heads of those of the runs that are there, and whether their events are deleted.
    pub(super) async fn heads(&self, runs: Vec<RunId>) -> Result<Vec<(RunId, Seq, bool)>, Error> {
        let ids: Arc<Vec<Uuid>> = Arc::new(runs.into_iter().map(|run| run.0).collect());
        let ask = self.link(Uuid::nil()).ask("read heads of", move |reader| {
            let ids = ids.clone();
            Box::pin(async move {
                let statement = reader.prepared(HEADS).await?;
                reader.client().query(&statement, &[&*ids]).await
            })
        });
        ask.await?.iter().map(|row| Ok((RunId(cell(row, 0)?), seq(cell(row, 1)?), cell(row, 2)?))).collect()
    }

    pub(super) async fn read(&self, run: RunId, after: Seq, max_bytes: usize) -> Result<Vec<EventBatch>, Error> {
        let mut page = Page::new(max_bytes);
        let (mut at, mut free) = (after, i64::try_from(max_bytes).unwrap_or(i64::MAX));
        loop {
            let from = stored(at);
            let ask = self.link(run.0).ask("read events of", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(EVENTS).await?;
                    reader.client().query(&statement, &[&run.0, &from, &free, &BATCHES]).await
                })
            });
            let rows = ask.await?;
            let fetched = rows.len();
            for row in rows {
                let Some(batch) = batch_of(&row, run)?.after(at) else { continue };
                if batch.first != at.next() {
                    return Err(Error::Corrupt { run, reason: format!("event {} is missing", at.next()) });
                }
                let bytes = i64::try_from(batch.ndjson.len()).unwrap_or(i64::MAX);
                (at, free) = (batch.last(), free.saturating_sub(bytes));
                if !page.add(batch) {
                    return Ok(page.batches);
                }
            }
            // A server that gives what was not asked for is not asked for ever.
            if i64::try_from(fetched).unwrap_or(i64::MAX) < BATCHES || stored(at) == from {
                return Ok(page.batches);
            }
        }
    }

    pub(super) async fn removals(&self) -> Result<u64, Error> {
        let ask = self.link(Uuid::nil()).ask("read how many files were removed of", |reader| {
            Box::pin(async move {
                let statement = reader.prepared(REMOVALS).await?;
                reader.client().query_one(&statement, &[]).await
            })
        });
        Ok(u64::try_from(cell::<i64>(&ask.await?, 0)?).unwrap_or_default())
    }

    pub(super) async fn index(&self, key: IndexKey) -> Result<Option<Bytes>, Error> {
        let link = match key {
            IndexKey::Run(run) | IndexKey::Open(run) | IndexKey::Snapshot(run) => self.link(run.0),
            IndexKey::Request(request) => self.link(request.0),
            IndexKey::Idempotency(digest) | IndexKey::Cache(digest) => {
                self.link(Uuid::from_slice(&digest[..16]).unwrap_or_default())
            }
        };
        let ask = link.ask("read a row of", move |reader| {
            Box::pin(async move {
                match key_of(&key) {
                    RowKey::State(run) => {
                        let statement = reader.prepared(STATE).await?;
                        reader.client().query_opt(&statement, &[&run]).await
                    }
                    RowKey::Open(run) => {
                        let statement = reader.prepared(IS_OPEN).await?;
                        reader.client().query_opt(&statement, &[&run]).await
                    }
                    RowKey::Other(kind, key) => {
                        let statement = reader.prepared(ROW).await?;
                        reader.client().query_opt(&statement, &[&kind, &key]).await
                    }
                }
            })
        });
        ask.await?.map(|row| Ok(Bytes::copy_from_slice(cell(&row, 0)?))).transpose()
    }

    pub(super) async fn open_runs(&self) -> Result<Vec<RunId>, Error> {
        let ask = self.link(Uuid::nil()).ask("list open runs of", |reader| {
            Box::pin(async move {
                let statement = reader.prepared(OPEN).await?;
                reader.client().query(&statement, &[]).await
            })
        });
        ask.await?.iter().map(|row| Ok(RunId(cell(row, 0)?))).collect()
    }

    pub(super) async fn runs_with(
        &self,
        filter: &RunFilter,
        mut before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<(RunId, Bytes)>, Error> {
        let mut found = Vec::new();
        while found.len() < limit {
            let most = (limit - found.len()).min(ROWS);
            let mut condition = Condition::of(filter);
            if let Some(before) = before {
                condition.before(before.0);
            }
            let limit = condition.value(i64::try_from(most).unwrap_or(i64::MAX));
            let state = bounded!("state");
            let sql =
                format!("select run, {state} from runs where {} order by run desc limit {limit}", condition.sql());
            let condition = Arc::new(condition);
            let ask = self.link(Uuid::nil()).ask("list runs of", move |reader| {
                let (sql, condition) = (sql.clone(), condition.clone());
                Box::pin(async move {
                    let statement = reader.prepared(&sql).await?;
                    reader.client().query(&statement, &condition.values()).await
                })
            });
            let rows = ask.await?;
            let fetched = rows.len();
            for row in &rows {
                found.push((RunId(cell(row, 0)?), Bytes::copy_from_slice(cell(row, 1)?)));
            }
            before = found.last().map(|(run, _)| *run);
            if fetched < most {
                break;
            }
        }
        Ok(found)
    }

    pub(super) async fn counts(&self, filter: &RunFilter) -> Result<RunCounts, Error> {
        let filter = RunFilter { status: None, ..filter.clone() };
        let condition = Condition::of(&filter);
        let sql = format!(
            "select left(status, 32), count(*) from runs where status is not null and {} group by 1",
            condition.sql()
        );
        let condition = Arc::new(condition);
        let ask = self.link(Uuid::nil()).ask("count runs of", move |reader| {
            let (sql, condition) = (sql.clone(), condition.clone());
            Box::pin(async move {
                let statement = reader.prepared(&sql).await?;
                reader.client().query(&statement, &condition.values()).await
            })
        });
        let counted = ask.await?;
        let of_row = |row: &Row| {
            let (found, count): (&str, i64) = (cell(row, 0)?, cell(row, 1)?);
            let status = Status::ALL.into_iter().find(|status| status.as_str() == found);
            Ok(status.map(|status| (status, u64::try_from(count).unwrap_or_default())))
        };
        counted.iter().filter_map(|row| of_row(row).transpose()).collect()
    }
}

fn batch_of(row: &Row, run: RunId) -> Result<EventBatch, Error> {
    let (last, count, bytes): (i64, i32, i32) = (cell(row, 0)?, cell(row, 1)?, cell(row, 3)?);
    if usize::try_from(bytes).is_ok_and(|bytes| bytes > MOST_STORED) {
        let reason = format!("the batch that ends at {last} has {bytes} bytes");
        return Err(Error::Corrupt { run, reason });
    }
    let (last, count) = (seq(last), u32::try_from(count).unwrap_or_default());
    let batch = EventBatch {
        first: Seq((last.0 + 1).saturating_sub(u64::from(count))),
        count,
        ndjson: Bytes::copy_from_slice(cell(row, 2)?),
    };
    match batch.flaw() {
        Some(reason) => Err(Error::Corrupt { run, reason }),
        None => Ok(batch),
    }
}
