//! Appends of events alone, as the output of engines is, of many runs in one statement: less than half the work of a call for each.
//!
//! What does not fit, for whatever reason, is left out; a call of its own tells why.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error as ServerError, Statement};
use uuid::Uuid;

use super::group::{AppendCall, Call, Outcome};
use crate::domain::ids::Seq;

pub(super) const APPEND_TOGETHER: &str = "\
    with done as ( \
        update runs set head = wanted.head \
        from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[]) \
            as wanted (run, expected, head, owner, epoch) \
        where runs.run = wanted.run and runs.head = wanted.expected and runs.deleted_at is null \
            and (runs.owner is null or runs.owner = wanted.owner) \
            and (wanted.epoch is null or runs.epoch = wanted.epoch) \
        returning runs.run, runs.owner is null as released \
    ), events_added as ( \
        insert into events (run, last, count, ndjson) \
        select batch.* from unnest($6::uuid[], $7::bigint[], $8::integer[], $9::bytea[]) \
            as batch (run, last, count, ndjson) \
        where batch.run in (select run from done) \
    ), raw_added as ( \
        insert into raw_chunks (run, stream, byte_from, bytes) \
        select piece.* from unnest($10::uuid[], $11::smallint[], $12::bigint[], $13::bytea[]) \
            as piece (run, stream, byte_from, bytes) \
        where piece.run in (select run from done) \
        on conflict (run, stream, byte_from) do update set bytes = excluded.bytes \
    ) \
    select run, released from done";

/// The calls of a group, by how they are sent.
pub(super) struct Split<'a> {
    together: Vec<&'a AppendCall>,
    /// With their places in the group.
    together_at: Vec<usize>,
    alone: Vec<(usize, &'a Call)>,
}

impl<'a> Split<'a> {
    /// Those that are sent together go first, so of each run only what is first in the group is among them.
    pub(super) fn of(calls: &'a [Call]) -> Split<'a> {
        let mut split = Split { together: Vec::new(), together_at: Vec::new(), alone: Vec::new() };
        let mut seen = HashSet::new();
        for (at, call) in calls.iter().enumerate() {
            match call {
                Call::Append(append) if seen.insert(append.run) && append.is_of_events_alone() => {
                    split.together.push(append);
                    split.together_at.push(at);
                }
                Call::Delete { run, .. } => {
                    seen.insert(*run);
                    split.alone.push((at, call));
                }
                Call::Append(_) => split.alone.push((at, call)),
            }
        }
        if split.together.len() < 2 {
            return Split { together: Vec::new(), together_at: Vec::new(), alone: calls.iter().enumerate().collect() };
        }
        split
    }

    pub(super) fn alone(&self) -> &[(usize, &'a Call)] {
        &self.alone
    }

    /// What became of those that are sent together, in their order; nothing for what was left out.
    pub(super) async fn send(
        &self,
        client: &Client,
        statement: &Statement,
    ) -> Result<Vec<(usize, Option<Outcome>)>, ServerError> {
        if self.together.is_empty() {
            return Ok(Vec::new());
        }
        let calls = &self.together;
        let runs: Vec<Uuid> = calls.iter().map(|call| call.run).collect();
        let expected: Vec<i64> = calls.iter().map(|call| call.expected).collect();
        let heads: Vec<i64> = calls.iter().map(|call| call.head).collect();
        let owners: Vec<Option<Uuid>> = calls.iter().map(|call| call.author.incarnation).collect();
        let epochs: Vec<Option<i64>> = calls.iter().map(|call| call.author.epoch).collect();

        let (mut of_runs, mut ndjson): (Vec<Uuid>, Vec<&[u8]>) = Default::default();
        let (mut lasts, mut counts): (Vec<i64>, Vec<i32>) = Default::default();
        for (call, batches) in calls.iter().filter_map(|call| call.batches.as_ref().map(|batches| (call, batches))) {
            of_runs.resize(of_runs.len() + batches.lasts.len(), call.run);
            lasts.extend(&batches.lasts);
            counts.extend(&batches.counts);
            ndjson.extend(batches.ndjson.iter().map(|bytes| bytes.as_ref()));
        }
        let (mut raw_runs, mut pieces): (Vec<Uuid>, Vec<&[u8]>) = Default::default();
        let (mut streams, mut froms): (Vec<i16>, Vec<i64>) = Default::default();
        for (call, raw) in calls.iter().filter_map(|call| call.raw.as_ref().map(|raw| (call, raw))) {
            raw_runs.resize(raw_runs.len() + raw.streams.len(), call.run);
            streams.extend(&raw.streams);
            froms.extend(&raw.froms);
            pieces.extend(raw.bytes.iter().map(|bytes| bytes.as_ref()));
        }
        let values: [&(dyn ToSql + Sync); 13] = [
            &runs, &expected, &heads, &owners, &epochs, &of_runs, &lasts, &counts, &ndjson, &raw_runs, &streams,
            &froms, &pieces,
        ];
        let rows = client.query(statement, &values).await?;
        let released: HashMap<Uuid, bool> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let outcome = |call: &AppendCall| {
            let released = *released.get(&call.run)?;
            Some(Outcome::Head { head: Seq(u64::try_from(call.head).unwrap_or_default()), released })
        };
        Ok(self.together_at.iter().zip(calls).map(|(at, call)| (*at, outcome(call))).collect())
    }
}
