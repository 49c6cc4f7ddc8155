//! Appends of what engines at work say, of many runs in one statement: less than half the work of a call for each.
//!
//! What does not fit, for whatever reason, is left out; a call of its own tells why. Of a run that is at work before and after the append,
//! `append_2` changes head and state alone: every other column stays what it is.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error as ServerError, Statement};
use uuid::Uuid;

use super::group::{AppendCall, Call, Outcome};
use crate::domain::ids::Seq;

pub(super) const APPEND_TOGETHER: &str = "\
    with done as ( \
        update runs set head = wanted.head, state = coalesce(wanted.state, runs.state) \
        from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $14::bytea[]) \
            as wanted (run, expected, head, owner, epoch, state) \
        where runs.run = wanted.run and runs.head = wanted.expected and runs.deleted_at is null \
            and (runs.owner is null or runs.owner = wanted.owner) \
            and (wanted.epoch is null or runs.epoch = wanted.epoch) \
            and (wanted.state is null or runs.status = 'running') \
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
                Call::Append(append) if seen.insert(append.run) && append.fits_others() => {
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
        let states: Vec<Option<&[u8]>> = calls.iter().map(|call| call.state()).collect();

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
        let values: [&(dyn ToSql + Sync); 14] = [
            &runs, &expected, &heads, &owners, &epochs, &of_runs, &lasts, &counts, &ndjson, &raw_runs, &streams,
            &froms, &pieces, &states,
        ];
        let rows = client.query(statement, &values).await?;
        let of_row = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let released = rows.iter().map(of_row).collect::<Result<HashMap<Uuid, bool>, ServerError>>()?;
        let outcome = |call: &AppendCall| {
            let released = *released.get(&call.run)?;
            Some(Outcome::Head { head: Seq(u64::try_from(call.head).unwrap_or_default()), released })
        };
        Ok(self.together_at.iter().zip(calls).map(|(at, call)| (*at, outcome(call))).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::domain::state::Phase;
    use crate::store::cluster_contract::{sample, share_rule};
    use crate::store::contract::{events, run};
    use crate::store::held::Author;
    use crate::store::postgres::group::{Request, Scope};
    use crate::store::postgres::heads::Heads;
    use crate::store::{Append, IndexChange, IndexKey};

    /// Which of the appends are sent together.
    fn together(appends: Vec<Append>) -> Vec<usize> {
        let heads = Arc::new(Heads::new(None, Duration::ZERO));
        heads.set_takes_runs(true);
        let scope = Scope { alone: false, share: share_rule(), heads };
        let call = |append| Call::of(&Request::Append(append, Author::default(), oneshot::channel().0), &scope);
        Split::of(&appends.into_iter().map(call).collect::<Vec<_>>()).together_at
    }

    #[test]
    fn what_engines_at_work_say_is_sent_together_and_nothing_that_changes_more_than_head_and_state() {
        let at_work = |n: u128, phase| sample(n).append(1, phase).unwrap();
        let with = |n: u128, change: fn(&mut Append)| {
            let mut append = at_work(n, Phase::Running);
            change(&mut append);
            append
        };
        let all = vec![
            at_work(0, Phase::Running),
            events(run(1), Seq(1), 3),
            at_work(2, Phase::Queued),
            at_work(3, Phase::Succeeded),
            with(4, |append| append.index.push(IndexChange::Put(IndexKey::Cache([1; 32]), "c".into()))),
            with(5, |append| append.for_others.files = vec![[1; 32]]),
            with(6, |append| append.require_absent = Some(IndexKey::Cache([1; 32]))),
            with(7, |append| append.events.clear()),
            with(8, |append| append.expected_head = Seq::START),
            // The later one of a run needs the earlier one.
            at_work(0, Phase::Running),
            at_work(9, Phase::Running),
        ];
        assert_eq!(together(all), [0, 1, 10]);
        assert_eq!(together(vec![at_work(0, Phase::Running)]), [] as [usize; 0], "one alone is no group");
    }
}
