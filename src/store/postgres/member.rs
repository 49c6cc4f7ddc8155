//! A service among several on the database: its lease, the runs that it takes, and what is asked of it.
//!
//! Every question here may be sent again after its answer was lost: none does more harm twice than once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::cell::cell;
use super::heads::Heads;
use super::link::Link;
use super::record_reads::RecordReads;
use crate::domain::fair_queue::{Bounds, PATIENCE};
use crate::domain::ids::RunId;
use crate::domain::statechart::Status;
use crate::store::held::{Held, Lease};
use crate::store::{
    BoxFuture, Changed, Cluster, Control, Error, LeaseId, Node, NodeId, NodeInfo, NodeLoad, OpenCounts, RecordChange,
    Renewed,
};

const JOIN: &str = "insert into nodes as kept (node, incarnation, removes_as, name, version, address, works, lease_until, joined_at) \
     values ($1, $2, $2, $3, $4, $5, $6, clock_timestamp() + $7 * interval '1 microsecond', clock_timestamp()) \
     on conflict (node) do update set incarnation = excluded.incarnation, removes_as = excluded.incarnation, name = excluded.name, version = excluded.version, \
         address = excluded.address, works = excluded.works, over = false, lease_until = excluded.lease_until, \
         joined_at = excluded.joined_at, running = 0, slots = 0, \
         draining = kept.draining and coalesce(kept.incarnation in ($2, $8), false)";
/// Nodes and questions that nobody needs any more.
const SWEEP: &str = "with nodes_gone as (delete from nodes where lease_until < clock_timestamp() - interval '1 day') \
     delete from controls where made_at < now() - interval '1 hour'";
/// A lease is never longer than the setting allows, by the clock of the database as it is now: that was set back, or somebody else wrote
/// the row. Cut to that length, it is renewed as before by whoever is there, and ends soon if nobody is.
const CUT_LEASES: &str = "with far as (select node, name, lease_until from nodes where not over \
         and lease_until > clock_timestamp() + $1 * interval '1 second' for update skip locked) \
     update nodes set lease_until = clock_timestamp() + $1 * interval '1 second' from far where nodes.node = far.node \
     returning nodes.node, left(far.name, 256), far.lease_until::text";
/// Runs that came into the queue in the future came now: others leave a run to the service that brought it for a moment only.
const CAME_NOW: &str = "update runs set came = micros() where run in (select run from runs where waits and owner is null \
         and not_before is null and came > (select micros() + 1000000) for update skip locked)";
/// Removals of shared files that began in the future began now, so that they end.
const BEGAN_NOW: &str = "update file_removals set begun_at = clock_timestamp() \
     where number is null and begun_at > clock_timestamp() + interval '1 minute'";
const RENEW: &str = "with queued as materialized ( \
         select substring(coalesce(share, '') from 1 for 4096) as share, count(*) as waiting from runs where waits and owner is null group by 1) \
     update nodes set lease_until = clock_timestamp() + $2 * interval '1 microsecond', running = $3, slots = $4 \
     where incarnation = $1 and not over and lease_until > clock_timestamp() \
     returning draining, array(select share from queued order by share), array(select waiting from queued order by share)";
/// Waits for a change under this lease that is under way.
const LEASE_IS_OVER: &str = "with ended as ( \
         update nodes set over = true where incarnation = $1 and not over and lease_until <= clock_timestamp() returning node) \
     select exists (select from ended) or not exists (select from nodes where incarnation = $1 and not over)";
const LEAVE: &str =
    "update nodes set over = true, lease_until = least(lease_until, clock_timestamp()) where incarnation = $1";
/// Nothing is decided where nothing waits: that is found by an index alone, and every service asks whenever one is woken.
const TAKE: &str = "select o_run, o_epoch from (select where exists (select from runs where waits and owner is null \
             and (not_before is not null or coalesce(came, 0) <= micros() - $8 or run = any ($7))) \
         or exists (select from runs where owner = $1 and waits and run <> all ($2))) as something, \
     lateral take_2($1, $2, $3, $4, $5, $6, $7, $8)";
const TAKE_ABANDONED: &str = "select o_run, o_epoch from take_abandoned_1($1, $2, $3)";
const RELEASE: &str = "update runs set owner = null where run = $1 and owner = $2 and epoch = $3";
const DUE: &str = "select run from runs where due_at <= micros() order by due_at limit $1";
const UNSEALED: &str = "select run from runs where over_at is not null and deleted_at is null \
     and (over_at <= micros() - $1 or over_at > micros() + 60000000) order by over_at limit $2";
const ASK: &str = "with asked as (insert into controls (id, owner, run, what) \
         select $1, owner, run, $3 from runs where run = $2 and owner is not null on conflict do nothing) \
     select nodes.node from runs left join nodes on nodes.incarnation = runs.owner where run = $2 and owner is not null";
const ASKED: &str = "with told as (delete from controls where id = any($2)) \
     select id, run, case when octet_length(what) <= 65536 then what else '' end from controls \
     where owner = $1 and id <> all($2) order by id limit 1000";
/// Whatever the row says: no time is beyond what can be told.
const NODES: &str = "select node, left(name, 256), left(version, 256), left(address, 2048), works, running, slots, draining, \
         (select count(*) from runs where owner = incarnation), \
         (extract(epoch from least(greatest(joined_at, 'epoch'), clock_timestamp())) * 1000000)::bigint, \
         case when over then 0 else (extract(epoch from \
             least(lease_until, clock_timestamp() + $1 * interval '1 second') - clock_timestamp()) * 1000000)::bigint end \
     from nodes where lease_until > clock_timestamp() - interval '1 day' order by name, node limit 1000";
const DRAIN: &str = "update nodes set draining = $2 where node = $1";
const OPEN_COUNTS: &str = "select left(coalesce(engine, ''), 256), status, count(*) from runs where open \
     and status in ('queued', 'running', 'waiting_user') group by 1, 2";
const UNUSED_FILES: &str = "select file from unnest($1::bytea[]) as file \
     where not exists (select from run_files where sha256 = file) \
     and not exists (select from record_files where sha256 = file)";

/// The longest lease that `lease_seconds` allows.
const LONGEST_LEASE: Duration = Duration::from_secs(300);

/// A service that has joined, or is to join.
pub(super) struct Member {
    pub(super) link: Link,
    pub(super) heads: Arc<Heads>,
    pub(super) held: Arc<Held>,
    wakes: Wakes,
    pub(super) records: RecordReads,
    /// One at a time takes: what is taken is known before the next asks.
    taking: tokio::sync::Mutex<()>,
    /// Questions of others that were told, and are not yet known to be removed.
    told: Mutex<HashSet<Uuid>>,
}

/// What is heard of what others do.
pub(super) struct Wakes {
    pub(super) wake: Arc<Notify>,
    pub(super) was_asked: Arc<AtomicBool>,
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000_000.0
}

fn whole_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

fn small(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A text that the server can store.
fn storable(text: &str) -> String {
    text.replace('\0', "")
}

impl Member {
    pub(super) fn new(link: Link, heads: Arc<Heads>, held: Arc<Held>, wakes: Wakes, records: RecordReads) -> Member {
        Member { link, heads, held, wakes, records, taking: tokio::sync::Mutex::new(()), told: Mutex::default() }
    }

    fn lease(&self) -> Result<Lease, Error> {
        self.held.lease().ok_or(Error::NotOwner)
    }

    fn longest_lease(&self) -> Duration {
        self.held.lease().map_or(LONGEST_LEASE, |lease| lease.duration.max(LONGEST_LEASE))
    }

    /// Nothing lies in the future of the database's clock for long: after that was set back, and whoever wrote it.
    async fn end_the_future(&self) -> Result<(), Error> {
        let longest = self.longest_lease();
        let ask = self.link.ask("look at the leases in", move |reader| {
            Box::pin(async move {
                for sql in [CAME_NOW, BEGAN_NOW] {
                    let statement = reader.prepared(sql).await?;
                    reader.client().execute(&statement, &[]).await?;
                }
                let statement = reader.prepared(CUT_LEASES).await?;
                reader.client().query(&statement, &[&longest.as_secs_f64()]).await
            })
        });
        for row in ask.await? {
            let (node, name, until): (Uuid, &str, &str) = (cell(&row, 0)?, cell(&row, 1)?, cell(&row, 2)?);
            tracing::warn!(
                %node, name, until,
                "the lease of a service is longer than any can be: the clock of the database was set back, or the row is damaged. \
                 It ends within {} s if it is not renewed",
                longest.as_secs()
            );
        }
        Ok(())
    }

    /// Takes what the function gives; it is asked with the incarnation and the runs that are known to be owned.
    async fn take_by(
        &self,
        sql: &'static str,
        most: usize,
        limits: Option<[Option<i32>; 2]>,
    ) -> Result<Vec<RunId>, Error> {
        let _alone = self.taking.lock().await;
        let incarnation = self.lease()?.incarnation;
        let known: Arc<Vec<Uuid>> = Arc::new(self.held.runs().into_iter().map(|run| run.0).collect());
        let (most, patience) = (small(most), i32::try_from(PATIENCE).unwrap_or(i32::MAX));
        let own_first = self.heads.own_first();
        let own: Arc<Vec<Uuid>> =
            Arc::new(self.held.queued_within(own_first * 2).into_iter().map(|run| run.0).collect());
        let own_first = whole_micros(own_first);
        let rows = self
            .link
            .ask("take runs of", move |reader| {
                let (known, own) = (known.clone(), own.clone());
                Box::pin(async move {
                    let statement = reader.prepared(sql).await?;
                    match limits {
                        Some([engine, skill]) => {
                            let values: [&(dyn ToSql + Sync); 8] =
                                [&incarnation, &*known, &most, &engine, &skill, &patience, &*own, &own_first];
                            reader.client().query(&statement, &values).await
                        }
                        None => reader.client().query(&statement, &[&incarnation, &*known, &most]).await,
                    }
                })
            })
            .await?;
        let taken: Option<Vec<(RunId, i64)>> = rows.iter().map(taken).collect::<Result<_, Error>>()?;
        let Some(taken) = taken else {
            self.held.lost(incarnation);
            return Err(Error::NotOwner);
        };
        let mine = taken.into_iter().filter(|(run, epoch)| self.held.took(incarnation, *run, *epoch));
        Ok(mine.map(|(run, _)| run).collect())
    }
}

fn taken(row: &Row) -> Result<Option<(RunId, i64)>, Error> {
    let Some(run) = cell::<Option<Uuid>>(row, 0)? else { return Ok(None) };
    Ok(Some((RunId(run), cell(row, 1)?)))
}

fn node_of(row: &Row) -> Result<Node, Error> {
    let number = |at: usize| Ok::<_, Error>(u32::try_from(cell::<i32>(row, at)?).unwrap_or_default());
    let left = u64::try_from(cell::<i64>(row, 10)?).unwrap_or_default();
    Ok(Node {
        node: NodeId(cell(row, 0)?),
        name: cell(row, 1)?,
        version: cell(row, 2)?,
        address: cell(row, 3)?,
        works: cell(row, 4)?,
        load: NodeLoad { running: number(5)?, slots: number(6)? },
        draining: cell(row, 7)?,
        owns: u64::try_from(cell::<i64>(row, 8)?).unwrap_or_default(),
        joined_at: cell(row, 9)?,
        lease_left: (left > 0).then(|| Duration::from_micros(left)),
    })
}

impl Cluster for Member {
    fn join(&self, info: NodeInfo) -> BoxFuture<'_, Result<(), Error>> {
        let lease = Lease { incarnation: Uuid::now_v7(), duration: info.lease };
        let (before, works) = (self.held.before(), info.works);
        let info = Arc::new(info);
        Box::pin(async move {
            let ask = self.link.ask("join", move |reader| {
                let info = info.clone();
                Box::pin(async move {
                    let statement = reader.prepared(JOIN).await?;
                    let (name, version) = (storable(&info.name), storable(&info.version));
                    let address = info.address.as_deref().map(storable);
                    let duration = micros(lease.duration);
                    let values: [&(dyn ToSql + Sync); 8] =
                        [&info.node.0, &lease.incarnation, &name, &version, &address, &info.works, &duration, &before];
                    reader.client().execute(&statement, &values).await?;
                    let statement = reader.prepared(SWEEP).await?;
                    reader.client().execute(&statement, &[]).await
                })
            });
            ask.await?;
            self.heads.set_takes_runs(works);
            self.held.joined(lease);
            Ok(())
        })
    }

    fn renew(&self, load: NodeLoad) -> BoxFuture<'_, Result<Renewed, Error>> {
        Box::pin(async move {
            let lease = self.lease()?;
            let (running, slots) =
                (i32::try_from(load.running).unwrap_or(i32::MAX), i32::try_from(load.slots).unwrap_or(i32::MAX));
            let ask = self.link.ask("renew the lease in", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(RENEW).await?;
                    let duration = micros(lease.duration);
                    reader.client().query_opt(&statement, &[&lease.incarnation, &duration, &running, &slots]).await
                })
            });
            let Some(row) = ask.await? else {
                self.held.lost(lease.incarnation);
                return Err(Error::NotOwner);
            };
            let (shares, waiting): (Vec<&[u8]>, Vec<i64>) = (cell(&row, 1)?, cell(&row, 2)?);
            let queued = shares.into_iter().zip(waiting).map(|(share, waiting)| {
                (String::from_utf8_lossy(share).into_owned(), usize::try_from(waiting).unwrap_or_default())
            });
            Ok(Renewed { draining: cell(&row, 0)?, queued: queued.collect() })
        })
    }

    fn leave(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let Some(lease) = self.held.lease() else { return Ok(()) };
            self.held.lost(lease.incarnation);
            let ask = self.link.ask("leave", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(LEAVE).await?;
                    reader.client().execute(&statement, &[&lease.incarnation]).await
                })
            });
            ask.await?;
            self.heads.queued();
            Ok(())
        })
    }

    fn lease(&self) -> Option<LeaseId> {
        self.held.lease().map(|lease| LeaseId(lease.incarnation))
    }

    fn lease_is_over(&self, lease: LeaseId) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            self.end_the_future().await?;
            let ask = self.link.ask("look at a lease in", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(LEASE_IS_OVER).await?;
                    reader.client().query_one(&statement, &[&lease.0]).await
                })
            });
            cell(&ask.await?, 0)
        })
    }

    fn change_record_under(&self, lease: LeaseId, change: RecordChange) -> BoxFuture<'_, Result<Changed, Error>> {
        Box::pin(self.change(change, Some(lease)))
    }

    fn take(&self, most: usize, bounds: &Bounds) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        let limits = [bounds.per_engine.map(small), bounds.per_skill.map(small)];
        Box::pin(self.take_by(TAKE, most, Some(limits)))
    }

    fn take_abandoned(&self, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        Box::pin(async move {
            self.end_the_future().await?;
            self.take_by(TAKE_ABANDONED, most, None).await
        })
    }

    fn release(&self, run: RunId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let author = self.held.author(run);
            let (Some(incarnation), Some(epoch)) = (author.incarnation, author.epoch) else { return Ok(()) };
            let ask = self.link.ask("give a run back to", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(RELEASE).await?;
                    reader.client().execute(&statement, &[&run.0, &incarnation, &epoch]).await
                })
            });
            ask.await?;
            self.held.forget(run, Some(epoch));
            self.heads.queued();
            Ok(())
        })
    }

    fn owns(&self, run: RunId) -> bool {
        self.held.owns(run)
    }

    fn due(&self, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        Box::pin(async move {
            let ask = self.link.ask("look for deadlines in", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(DUE).await?;
                    reader.client().query(&statement, &[&limit(most)]).await
                })
            });
            ask.await?.iter().map(|row| Ok(RunId(cell(row, 0)?))).collect()
        })
    }

    fn unsealed(&self, over_for: Duration, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        Box::pin(async move {
            let ask = self.link.ask("look for ended runs in", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(UNSEALED).await?;
                    reader.client().query(&statement, &[&whole_micros(over_for), &limit(most)]).await
                })
            });
            ask.await?.iter().map(|row| Ok(RunId(cell(row, 0)?))).collect()
        })
    }

    fn ask(&self, run: RunId, control: Control) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            let what = serde_json::to_string(&control)
                .map_err(|error| Error::Malformed { reason: format!("it cannot be asked: {error}") })?;
            let (id, what) = (Uuid::now_v7(), Arc::new(what));
            let ask = self.link.ask("ask something in", move |reader| {
                let what = what.clone();
                Box::pin(async move {
                    let statement = reader.prepared(ASK).await?;
                    reader.client().query_opt(&statement, &[&id, &run.0, &*what]).await
                })
            });
            let Some(row) = ask.await? else { return Ok(false) };
            if let Some(node) = cell::<Option<Uuid>>(&row, 0)? {
                self.heads.asked(NodeId(node));
            }
            Ok(true)
        })
    }

    fn asked(&self) -> BoxFuture<'_, Result<Vec<(RunId, Control)>, Error>> {
        Box::pin(async move {
            let incarnation = self.lease()?.incarnation;
            let before: Vec<Uuid> = self.told.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
            let removed = Arc::new(before);
            let sent = removed.clone();
            let ask = self.link.ask("look for questions in", move |reader| {
                let sent = sent.clone();
                Box::pin(async move {
                    let statement = reader.prepared(ASKED).await?;
                    reader.client().query(&statement, &[&incarnation, &*sent]).await
                })
            });
            let rows = ask.await?;
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.retain(|id| !removed.contains(id));
            let mut asked = Vec::new();
            for row in &rows {
                let (id, run, what): (Uuid, Uuid, &str) = (cell(row, 0)?, cell(row, 1)?, cell(row, 2)?);
                if told.insert(id) {
                    asked.extend(serde_json::from_str(what).ok().map(|control| (RunId(run), control)));
                }
            }
            Ok(asked)
        })
    }

    fn wake(&self) -> Arc<Notify> {
        self.wakes.wake.clone()
    }

    fn was_asked(&self) -> bool {
        self.wakes.was_asked.swap(false, Ordering::AcqRel)
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<Node>, Error>> {
        Box::pin(async move {
            let longest = self.longest_lease();
            let ask = self.link.ask("list services of", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(NODES).await?;
                    reader.client().query(&statement, &[&longest.as_secs_f64()]).await
                })
            });
            ask.await?.iter().map(node_of).collect()
        })
    }

    fn drain(&self, node: NodeId, draining: bool) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            let ask = self.link.ask("drain a service of", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(DRAIN).await?;
                    reader.client().execute(&statement, &[&node.0, &draining]).await
                })
            });
            let found = ask.await? > 0;
            self.heads.asked(node);
            Ok(found)
        })
    }

    fn open_counts(&self) -> BoxFuture<'_, Result<Option<OpenCounts>, Error>> {
        Box::pin(async move {
            let ask = self.link.ask("count open runs of", |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(OPEN_COUNTS).await?;
                    reader.client().query(&statement, &[]).await
                })
            });
            let count = |row: &Row| {
                let (engine, found, count): (String, &str, i64) = (cell(row, 0)?, cell(row, 1)?, cell(row, 2)?);
                let status = Status::ALL.into_iter().find(|status| status.as_str() == found);
                Ok(status.map(|status| (engine, status, u64::try_from(count).unwrap_or_default())))
            };
            ask.await?.iter().filter_map(|row| count(row).transpose()).collect::<Result<_, Error>>().map(Some)
        })
    }

    fn unused_files(&self, among: &[[u8; 32]]) -> BoxFuture<'_, Result<Vec<[u8; 32]>, Error>> {
        let among: Arc<Vec<Vec<u8>>> = Arc::new(among.iter().map(|file| file.to_vec()).collect());
        Box::pin(async move {
            let ask = self.link.ask("look for unused files in", move |reader| {
                let among = among.clone();
                Box::pin(async move {
                    let statement = reader.prepared(UNUSED_FILES).await?;
                    reader.client().query(&statement, &[&*among]).await
                })
            });
            let rows = ask.await?;
            let files: Vec<&[u8]> = rows.iter().map(|row| cell(row, 0)).collect::<Result<_, _>>()?;
            Ok(files.into_iter().filter_map(|file| file.try_into().ok()).collect())
        })
    }
}
