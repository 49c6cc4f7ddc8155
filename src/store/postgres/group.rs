//! Requests to the writer as calls of the database, and what the database answered.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error as ServerError, Row, Statement};
use uuid::Uuid;

use super::filter::Columns;
use super::heads::Heads;
use super::row_key::{RowKey, key_of};
use crate::domain::fact::Stream;
use crate::domain::fair_queue::ShareRule;
use crate::domain::ids::{RunId, Seq};
use crate::domain::statechart::Status;
use crate::store::held::Author;
use crate::store::{Append, AppendResult, Error, IndexChange, IndexKey, RawPiece};

/// The call of the function that appends; the connection has it as one statement, or as part of a larger one.
macro_rules! append {
    () => {
        "select outcome, actual, case when octet_length(taken) <= 4194304 then taken end as taken, released from append_2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
         $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32)"
    };
}
pub(super) const APPEND: &str = append!();
/// The same for an append after which the run needs no shared files but those that it names. One that is refused changes nothing.
pub(super) const APPEND_INSTEAD: &str = concat!(
    "with done as materialized (",
    append!(),
    "), forgotten as (delete from run_files where run = $1 and sha256 <> all ($32) and (select outcome from done) = 0) \
     select outcome, actual, taken, released from done"
);
/// Says after how many removals the files were put that this transaction names.
pub(super) const PUT_AFTER: &str = "select set_config('skill_runner.put_after', $1, true)";
pub(super) const DELETE: &str = "select delete_2($1, $2, $3, $4)";

/// For whom the store writes.
pub(super) struct Scope {
    /// For one service: then nothing is kept for others.
    pub(super) alone: bool,
    pub(super) share: ShareRule,
    pub(super) heads: Arc<Heads>,
}

/// What the writer is asked to do, and where the answer goes.
pub(super) enum Request {
    Append(Append, Author, oneshot::Sender<AppendResult>),
    /// Remove a run's events; with `whole`, its row and the rows named as well.
    Delete {
        run: RunId,
        whole: bool,
        rows: Vec<IndexKey>,
        caller: oneshot::Sender<Result<(), Error>>,
    },
}

impl Request {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Request::Append(append, ..) => {
                let events = append.events.iter().map(|batch| batch.ndjson.len());
                events.chain(append.for_others.raw.iter().map(|piece| piece.bytes.len())).sum()
            }
            Request::Delete { .. } => 0,
        }
    }
}

/// A request as parameters; made once, and sent as often as needed.
pub(super) enum Call {
    Append(Box<AppendCall>),
    Delete { run: Uuid, whole: bool, kinds: Vec<i16>, keys: Vec<Vec<u8>> },
}

pub(super) struct AppendCall {
    pub(super) run: Uuid,
    pub(super) expected: i64,
    pub(super) head: i64,
    pub(super) batches: Option<Batches>,
    row_change: i16,
    row: Option<Bytes>,
    open: Option<bool>,
    columns: Columns,
    rows: Option<Rows>,
    absent: Option<(i16, Vec<u8>)>,
    pub(super) author: Author,
    pub(super) raw: Option<Raw>,
    files: Option<Files>,
}

/// Shared files that a run needs.
struct Files {
    hashes: Vec<Vec<u8>>,
    put_after: u64,
    /// It needs no others any more.
    only_these: bool,
}

/// The statements of calls, prepared on a connection.
pub(super) struct Statements {
    pub(super) append: Statement,
    pub(super) append_instead: Statement,
    pub(super) delete: Statement,
}

pub(super) struct Raw {
    pub(super) streams: Vec<i16>,
    pub(super) froms: Vec<i64>,
    pub(super) bytes: Vec<Bytes>,
}

impl Raw {
    fn of(pieces: &[RawPiece]) -> Option<Raw> {
        (!pieces.is_empty()).then(|| Raw {
            streams: pieces.iter().map(|piece| stream_number(piece.stream)).collect(),
            froms: pieces.iter().map(|piece| i64::try_from(piece.from).unwrap_or(i64::MAX)).collect(),
            bytes: pieces.iter().map(|piece| piece.bytes.clone()).collect(),
        })
    }
}

/// A raw stream, as the tables name it.
pub(super) fn stream_number(stream: Stream) -> i16 {
    match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
        Stream::Pty => 3,
    }
}

pub(super) struct Batches {
    pub(super) lasts: Vec<i64>,
    pub(super) counts: Vec<i32>,
    pub(super) ndjson: Vec<Bytes>,
}

struct Rows {
    kinds: Vec<i16>,
    keys: Vec<Vec<u8>>,
    values: Vec<Option<Bytes>>,
}

/// What became of a call.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Head {
        head: Seq,
        /// Nobody owns the run now.
        released: bool,
    },
    Conflict(Seq),
    NotOwner,
    Taken(Bytes),
    Deleted,
}

/// What is wrong with an append for this store, though not in itself.
pub(super) fn check(append: &Append) -> Result<(), Error> {
    let foreign = append.index.iter().any(|change| match change {
        IndexChange::Put(key, _) | IndexChange::Delete(key) => match key {
            IndexKey::Run(run) | IndexKey::Open(run) | IndexKey::Snapshot(run) => *run != append.run,
            IndexKey::Request(_) | IndexKey::Idempotency(_) | IndexKey::Cache(_) => false,
        },
    });
    if foreign {
        return Err(Error::Malformed { reason: "it changes the row of another run".to_owned() });
    }
    if matches!(append.require_absent, Some(IndexKey::Open(_))) {
        return Err(Error::Malformed { reason: "an open mark cannot be required to be absent".to_owned() });
    }
    Ok(())
}

fn number(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

impl Call {
    pub(super) fn of(request: &Request, scope: &Scope) -> Call {
        match request {
            Request::Append(append, author, _) => Call::Append(Box::new(AppendCall::of(append, *author, scope))),
            Request::Delete { run, whole, rows, .. } => {
                let (kinds, keys) = rows.iter().filter_map(other_key).unzip();
                Call::Delete { run: run.0, whole: *whole, kinds, keys }
            }
        }
    }

    pub(super) async fn send(&self, client: &Client, statements: &Statements) -> Result<Outcome, ServerError> {
        match self {
            Call::Append(call) => {
                let only_these = call.files.as_ref().is_some_and(|files| files.only_these);
                let statement = if only_these { &statements.append_instead } else { &statements.append };
                call.send(client, statement).await
            }
            Call::Delete { run, whole, kinds, keys } => {
                client.query_one(&statements.delete, &[run, whole, kinds, keys]).await.map(|_| Outcome::Deleted)
            }
        }
    }

    /// How many removals were over when the files were put that it names.
    pub(super) fn put_after(&self) -> Option<u64> {
        match self {
            Call::Append(call) => call.files.as_ref().map(|files| files.put_after),
            Call::Delete { .. } => None,
        }
    }
}

fn other_key(key: &IndexKey) -> Option<(i16, Vec<u8>)> {
    match key_of(key) {
        RowKey::Other(kind, key) => Some((kind, key)),
        RowKey::State(_) | RowKey::Open(_) => None,
    }
}

impl AppendCall {
    fn of(append: &Append, author: Author, scope: &Scope) -> AppendCall {
        let head = append.events.last().map_or(append.expected_head, |batch| batch.last());
        let batches = (!append.events.is_empty()).then(|| Batches {
            lasts: append.events.iter().map(|batch| number(batch.last())).collect(),
            counts: append.events.iter().map(|batch| i32::try_from(batch.count).unwrap_or(i32::MAX)).collect(),
            ndjson: append.events.iter().map(|batch| batch.ndjson.clone()).collect(),
        });
        // The last change of a row counts.
        let mut last: HashMap<&IndexKey, Option<&Bytes>> = HashMap::new();
        for change in &append.index {
            match change {
                IndexChange::Put(key, value) => last.insert(key, Some(value)),
                IndexChange::Delete(key) => last.insert(key, None),
            };
        }
        let (mut row_change, mut row, mut open) = (0, None, None);
        let mut rows = Rows { kinds: Vec::new(), keys: Vec::new(), values: Vec::new() };
        for (key, value) in last {
            match key_of(key) {
                RowKey::State(_) => (row_change, row) = (if value.is_some() { 1 } else { 2 }, value.cloned()),
                RowKey::Open(_) => open = Some(value.is_some()),
                RowKey::Other(kind, key) => {
                    rows.kinds.push(kind);
                    rows.keys.push(key);
                    rows.values.push(value.cloned());
                }
            }
        }
        let absent = append.require_absent.as_ref().map(|key| match key_of(key) {
            RowKey::State(run) | RowKey::Open(run) => (0, run.as_bytes().to_vec()),
            RowKey::Other(kind, key) => (kind, key),
        });
        let mut columns = row.as_deref().map(|row| Columns::of_row(row, &scope.share)).unwrap_or_default();
        if columns.place.waits && !scope.heads.takes_runs() {
            // From the beginning for every service.
            columns.place.not_before.get_or_insert(0);
        }
        AppendCall {
            run: append.run.0,
            expected: number(append.expected_head),
            head: number(head),
            batches,
            row_change,
            columns,
            row,
            open,
            rows: (!rows.kinds.is_empty()).then_some(rows),
            absent,
            author,
            raw: Raw::of(&append.for_others.raw).filter(|_| !scope.alone),
            files: (!scope.alone && !append.for_others.files.is_empty()).then(|| Files {
                hashes: append.for_others.files.iter().map(|file| file.to_vec()).collect(),
                put_after: append.for_others.put_after,
                only_these: append.for_others.only_these,
            }),
        }
    }

    /// Whether it adds events to a log that is there, raw output that they cite, and the state of a run at work, and changes nothing else.
    pub(super) fn fits_others(&self) -> bool {
        let place = &self.columns.place;
        let is_at_work = self.columns.status == Some(Status::Running.as_str())
            && !place.waits
            && place.not_before.is_none()
            && place.due_at.is_none()
            && place.priority.is_none();
        self.expected > 0
            && self.batches.is_some()
            && (self.row_change == 0 || self.row_change == 1 && is_at_work)
            && self.open.is_none()
            && self.rows.is_none()
            && self.absent.is_none()
            && self.files.is_none()
    }

    /// The state that it writes, if it writes one.
    pub(super) fn state(&self) -> Option<&[u8]> {
        self.row.as_deref()
    }

    async fn send(&self, client: &Client, statement: &Statement) -> Result<Outcome, ServerError> {
        let (batches, rows, columns) = (self.batches.as_ref(), self.rows.as_ref(), &self.columns);
        let ndjson = batches.map(|batches| slices(&batches.ndjson));
        let values: Option<Vec<Option<&[u8]>>> =
            rows.map(|rows| rows.values.iter().map(|value| value.as_deref()).collect());
        let (lasts, counts) = (batches.map(|batches| &batches.lasts), batches.map(|batches| &batches.counts));
        let (kinds, keys) = (rows.map(|rows| &rows.kinds), rows.map(|rows| &rows.keys));
        let row = self.row.as_deref();
        let (absent_kind, absent_key) =
            (self.absent.as_ref().map(|(kind, _)| kind), self.absent.as_ref().map(|(_, key)| key));
        let place = &columns.place;
        let (streams, froms) = (self.raw.as_ref().map(|raw| &raw.streams), self.raw.as_ref().map(|raw| &raw.froms));
        let files = self.files.as_ref().map(|files| &files.hashes);
        let raw_bytes = self.raw.as_ref().map(|raw| slices(&raw.bytes));
        let values: [&(dyn ToSql + Sync); 32] = [
            &self.run,
            &self.expected,
            &self.head,
            &lasts,
            &counts,
            &ndjson,
            &self.row_change,
            &row,
            &self.open,
            &columns.status,
            &columns.skill,
            &columns.engine,
            &columns.temporary,
            &columns.labels,
            &columns.created_at,
            &kinds,
            &keys,
            &values,
            &absent_kind,
            &absent_key,
            &self.author.incarnation,
            &self.author.epoch,
            &place.waits,
            &place.not_before,
            &place.priority,
            &place.share,
            &place.shared_key,
            &place.due_at,
            &streams,
            &froms,
            &raw_bytes,
            &files,
        ];
        outcome(&client.query_one(statement, &values).await?)
    }
}

fn slices(all: &[Bytes]) -> Vec<&[u8]> {
    all.iter().map(|bytes| bytes.as_ref()).collect()
}

fn outcome(row: &Row) -> Result<Outcome, ServerError> {
    let head: Option<i64> = row.try_get(1)?;
    let head = Seq(head.and_then(|head| u64::try_from(head).ok()).unwrap_or_default());
    Ok(match row.try_get::<_, i16>(0)? {
        0 => Outcome::Head { head, released: row.try_get::<_, Option<bool>>(3)?.unwrap_or_default() },
        1 => Outcome::Conflict(head),
        2 => Outcome::Taken(Bytes::copy_from_slice(row.try_get::<_, Option<&[u8]>>(2)?.unwrap_or_default())),
        4 => Outcome::NotOwner,
        _ => Outcome::Deleted,
    })
}

impl Outcome {
    pub(super) fn into_append(self) -> AppendResult {
        match self {
            Outcome::Head { head, .. } => Ok(head),
            Outcome::NotOwner => Err(Error::NotOwner),
            Outcome::Conflict(actual) => Err(Error::Conflict { actual }),
            Outcome::Taken(value) => Err(Error::Taken { value }),
            Outcome::Deleted => Err(Error::Deleted),
        }
    }
}
