//! The one writer of a process: takes what has queued up, sends it as one pipelined transaction, answers all when it is durable.
//!
//! There is no timer: while one group is being committed, the next one queues up. A connection that is lost before the commit
//! was sent has written nothing, and the group is sent again. If it is lost while committing, the writer's row tells, on the next
//! connection, whether that happened: each group counts it up. The new connection takes the row over first, so that
//! nothing that the old one still has under way can commit afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{join, join4, try_join_all};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error as ServerError, Statement};
use uuid::Uuid;

use super::failure;
use super::group::{APPEND, APPEND_INSTEAD, Call, DELETE, Outcome, PUT_AFTER, Request, Scope, Statements};
use super::heads::Heads;
use super::place::Place;
use super::session::{Backoff, NotConnected, Session, connect};
use super::together::{APPEND_TOGETHER, Split};
use crate::store::error::Cause;
use crate::store::held::{Author, Held};
use crate::store::{Append, Error, IndexChange, IndexKey};

/// Why it is connected again.
const SILENT: &str = "the database does not answer";
const STALE: &str = "the database does not count this process's appends";

const MAX_GROUP_REQUESTS: usize = 1024;
const MAX_GROUP_BYTES: usize = 4 * 1024 * 1024;

const BEGIN_GROUP: &str = "update writers set last_group = $3, seen = now() where writer = $1 and session = $2 and last_group = $3::bigint - 1";
const TAKE_OVER: &str =
    "update writers set session = session + 1, seen = now() where writer = $1 returning session, last_group";
/// A connection of this writer that the server does not yet know to be lost.
const END_OLD: &str =
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and pid <> pg_backend_pid()";
/// One process at a time works on a store. The lock ends with the connection.
const LOCK: &str =
    "select pg_try_advisory_lock(('x' || substr(md5(current_schema() || '.writers'), 1, 16))::bit(64)::bigint)";
/// Or several services do, and nobody alone.
const LOCK_SHARED: &str =
    "select pg_try_advisory_lock_shared(('x' || substr(md5(current_schema() || '.writers'), 1, 16))::bit(64)::bigint)";
/// What a service alone finds of several that were there before: nobody owns anything.
const END_OTHERS: &str =
    "update runs set owner = null, epoch = epoch + 1 where owner is not null; delete from nodes; delete from controls";

/// How the writer works.
pub(super) struct Rules {
    /// Whether no other process may write to the store, among others.
    pub(super) scope: Scope,
    /// How long a lost connection is tried to be made again before the process should end.
    pub(super) patience: Duration,
    /// How long the server may take for one group before it is looked for on another connection.
    pub(super) answer_patience: Duration,
    /// How long to wait at the start for another process to end.
    pub(super) lock_patience: Duration,
    /// The store is being closed: a lost server is not waited for.
    pub(super) stop: Arc<AtomicBool>,
}

impl Rules {
    fn is_over(&self, began: Instant) -> bool {
        began.elapsed() > self.patience || self.stop.load(Ordering::Relaxed)
    }
}

/// The state of the writer.
pub(super) struct Writer {
    place: Arc<Place>,
    rules: Rules,
    heads: Arc<Heads>,
    held: Arc<Held>,
    id: Uuid,
    link: Option<WriteLink>,
    /// Groups that were committed.
    groups: i64,
}

struct WriteLink {
    client: Client,
    close: AbortHandle,
    session: i64,
    begin: Statement,
    put_after: Statement,
    together: Statement,
    calls: Statements,
}

/// What became of an attempt.
enum Attempt {
    Committed(Vec<Outcome>),
    /// Nothing was written.
    Nothing(ServerError),
    /// The commit was sent, and no answer came.
    Unknown(Cause, Vec<Outcome>),
    /// There was no answer, and the commit was not sent: the next connection sees to it that nothing was written.
    Silent,
    /// Another connection has taken over.
    Stale,
}

/// What was tried for a group so far.
#[derive(Default)]
struct Tried {
    losses: u32,
    backoff: Backoff,
}

/// Why a connection cannot be had.
enum NoLink {
    Server(Cause),
    Fatal(Error),
}

impl From<ServerError> for NoLink {
    fn from(error: ServerError) -> NoLink {
        NoLink::Server(Arc::new(error))
    }
}

impl From<NotConnected> for NoLink {
    fn from(error: NotConnected) -> NoLink {
        NoLink::Server(Arc::new(error))
    }
}

impl Writer {
    /// Registers a writer; with `alone`, takes the store for this process and lets nobody who had it before write to it again.
    pub(super) async fn register(
        place: Arc<Place>,
        rules: Rules,
        heads: Arc<Heads>,
        held: Arc<Held>,
    ) -> Result<Writer, Error> {
        let unusable =
            |error: &ServerError| Error::Unusable { store: place.to_string(), reason: failure::refused(error) };
        let mut writer = Writer { place: place.clone(), rules, heads, held, id: Uuid::now_v7(), link: None, groups: 0 };
        let session = connect(&place, &writer.name(), None).await;
        let session = session.map_err(|error| Error::Unusable { store: place.to_string(), reason: error.reason() })?;
        let Session { client, close, .. } = session;
        if !writer.lock(&client).await.map_err(|error| unusable(&error))? {
            return Err(Error::InUse { store: place.to_string() });
        }
        let begun = async {
            client
                .execute("insert into writers (writer, session, last_group) values ($1, 0, 0)", &[&writer.id])
                .await?;
            if writer.rules.scope.alone {
                // Waits for what they have under way. Whoever has no row can commit nothing more.
                client.execute("delete from writers where writer <> $1", &[&writer.id]).await?;
                client.batch_execute(END_OTHERS).await?;
            } else {
                client.execute("delete from writers where seen < now() - interval '7 days'", &[]).await?;
            }
            // Marks of deleted runs are needed while an append to them may be under way.
            client
                .execute(
                    "delete from runs where state is null and status is null and deleted_at < now() - interval '1 day'",
                    &[],
                )
                .await?;
            WriteLink::prepare(client, close, 0).await
        };
        writer.link = Some(begun.await.map_err(|error| unusable(&error))?);
        Ok(writer)
    }

    fn name(&self) -> String {
        format!("skill-runner writer {}", self.id.simple())
    }

    async fn lock(&self, client: &Client) -> Result<bool, ServerError> {
        let began = Instant::now();
        let lock = if self.rules.scope.alone { LOCK } else { LOCK_SHARED };
        loop {
            if client.query_one(lock, &[]).await?.try_get(0)? {
                return Ok(true);
            }
            if began.elapsed() > self.rules.lock_patience {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Works until the store is dropped, or for good reason stops; then that reason is returned.
    pub(super) async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) -> Option<Error> {
        while let Some(first) = requests.recv().await {
            let group = drain(first, &mut requests);
            let calls: Vec<Call> = group.iter().map(|request| Call::of(request, &self.rules.scope)).collect();
            if let Err(fatal) = self.write(group, calls).await {
                return Some(fatal);
            }
        }
        if let Some(link) = self.link.take() {
            let _ = link.client.execute("delete from writers where writer = $1", &[&self.id]).await;
        }
        None
    }

    /// Writes a group and answers each request. If the server refuses the group as such, each request is tried alone, so that
    /// one that it cannot take does not spoil the others. An error is fatal.
    async fn write(&mut self, group: Vec<Request>, calls: Vec<Call>) -> Result<(), Error> {
        match self.commit(&calls).await {
            Ok(Ok(outcomes)) => {
                for (request, outcome) in group.into_iter().zip(outcomes) {
                    self.answer(request, Ok(outcome));
                }
            }
            Ok(Err(refused)) if group.len() == 1 => {
                for request in group {
                    self.answer(request, Err(refused.clone()));
                }
            }
            Ok(Err(_)) => {
                for (request, call) in group.into_iter().zip(calls) {
                    match self.commit(std::slice::from_ref(&call)).await {
                        Ok(Ok(mut outcomes)) => {
                            let outcome = outcomes.pop().unwrap_or(Outcome::Deleted);
                            self.answer(request, Ok(outcome));
                        }
                        Ok(Err(refused)) => self.answer(request, Err(refused)),
                        Err(fatal) => {
                            self.answer(request, Err(fatal.clone()));
                            return Err(fatal);
                        }
                    }
                }
            }
            Err(fatal) => {
                for request in group {
                    self.answer(request, Err(fatal.clone()));
                }
                return Err(fatal);
            }
        }
        Ok(())
    }

    /// Publishes what became of a request, then answers it.
    fn answer(&self, request: Request, outcome: Result<Outcome, Error>) {
        // A caller that has gone away wants no answer.
        match request {
            Request::Append(append, author, caller) => {
                self.settle(&append, author, &outcome);
                let result = outcome.and_then(Outcome::into_append);
                if let Ok(head) = result
                    && !append.events.is_empty()
                {
                    self.heads.appended(&append.run, head);
                }
                let _ = caller.send(result);
            }
            Request::Delete { run, caller, .. } => {
                if outcome.is_ok() {
                    self.heads.deleted(&run);
                    self.held.forget(run, self.held.author(run).epoch);
                }
                let _ = caller.send(outcome.map(|_| ()));
            }
        }
    }

    /// What an append means for who owns the run and for the queue.
    fn settle(&self, append: &Append, author: Author, outcome: &Result<Outcome, Error>) {
        match outcome {
            Ok(Outcome::Head { released: true, .. }) => {
                self.held.forget(append.run, author.epoch);
                // It may wait in the queue now, or have kept others from being started.
                if append.index.iter().any(|change| matches!(change, IndexChange::Put(IndexKey::Run(_), _))) {
                    self.held.queued(append.run);
                    self.heads.queued();
                }
            }
            Ok(Outcome::NotOwner) if author.epoch.is_some() => self.held.forget(append.run, author.epoch),
            Ok(_) | Err(_) => {}
        }
    }

    /// Commits the calls in one transaction, whatever happens to connections. The inner error is a refusal of the server:
    /// nothing was written. The outer one is fatal.
    async fn commit(&mut self, calls: &[Call]) -> Result<Result<Vec<Outcome>, Error>, Error> {
        let began = Instant::now();
        let mut tried = Tried::default();
        // The answers to a commit of which nobody knows whether it happened.
        let mut sent: Option<Vec<Outcome>> = None;
        loop {
            let link = match self.link.take() {
                Some(link) => link,
                None => match self.reconnect_in_time().await {
                    Ok((link, committed)) => {
                        if let Some(outcomes) = sent.take().filter(|_| committed == self.groups + 1) {
                            self.link = Some(link);
                            self.groups += 1;
                            return Ok(Ok(outcomes));
                        }
                        if committed != self.groups {
                            let reason = format!(
                                "group {} of this process was acknowledged, and the database knows {committed}: it was \
                                 restored, or failed over to a server without the last commits",
                                self.groups
                            );
                            return Err(Error::Unusable { store: self.place.to_string(), reason });
                        }
                        link
                    }
                    Err(NoLink::Fatal(fatal)) => return Err(fatal),
                    Err(NoLink::Server(source)) => {
                        if self.rules.is_over(began) {
                            return Err(Error::Unavailable { source });
                        }
                        tried.backoff.pause().await;
                        continue;
                    }
                },
            };
            let group = self.groups + 1;
            match link.attempt(self.id, group, calls, self.rules.answer_patience).await {
                Attempt::Committed(outcomes) => {
                    self.groups = group;
                    self.link = Some(link);
                    return Ok(Ok(outcomes));
                }
                Attempt::Nothing(error) if failure::ends_connection(&error) => {
                    tracing::warn!(%error, "the connection to the database was lost; connecting again");
                    self.again(began, &mut tried, Arc::new(error)).await?;
                }
                Attempt::Nothing(error) => {
                    let rolled_back = link.client.batch_execute("rollback").await.is_ok();
                    self.link = rolled_back.then_some(link);
                    if failure::is_removed_file(&error) {
                        return Ok(Err(Error::FilesRemoved));
                    }
                    if failure::is_full(&error) {
                        return Ok(Err(Error::Full { path: self.place.to_string().into(), available: 0 }));
                    }
                    if !failure::is_passing(&error) || self.rules.is_over(began) {
                        return Ok(Err(failure::broken("write to", error)));
                    }
                    tried.backoff.pause().await;
                }
                Attempt::Unknown(error, outcomes) => {
                    tracing::warn!(%error, "the connection to the database was lost during a commit; looking whether it happened");
                    sent = Some(outcomes);
                    self.again(began, &mut tried, error).await?;
                }
                // The next connection tells why.
                Attempt::Stale => self.again(began, &mut tried, Error::cause(STALE)).await?,
                Attempt::Silent => {
                    link.close.abort();
                    tracing::warn!("the database does not answer; connecting again");
                    self.again(began, &mut tried, Error::cause(SILENT)).await?;
                }
            }
        }
    }

    /// Pauses before another attempt, unless it was tried for too long: a connection may come back each time and be lost again.
    async fn again(&self, began: Instant, tried: &mut Tried, source: Cause) -> Result<(), Error> {
        // Another connection is always tried: it tells what became of the attempt.
        tried.losses += 1;
        if tried.losses > 1 && self.rules.is_over(began) {
            return Err(Error::Unavailable { source });
        }
        tried.backoff.pause().await;
        Ok(())
    }

    async fn reconnect_in_time(&mut self) -> Result<(WriteLink, i64), NoLink> {
        let connected = timeout(self.rules.answer_patience, self.reconnect()).await;
        connected.unwrap_or_else(|_| Err(NoLink::Server(Error::cause(SILENT))))
    }

    /// A new connection that takes over from the lost one, and the last group that was committed.
    async fn reconnect(&mut self) -> Result<(WriteLink, i64), NoLink> {
        let Session { client, close, .. } = connect(&self.place, &self.name(), None).await?;
        client.query(END_OLD, &[&self.name()]).await?;
        // Waits until the old connection's transaction has ended, one way or the other.
        let Some(row) = client.query_opt(TAKE_OVER, &[&self.id]).await? else {
            return Err(NoLink::Fatal(Error::InUse { store: self.place.to_string() }));
        };
        let (session, committed) = (row.try_get(0)?, row.try_get(1)?);
        if !self.lock(&client).await? {
            return Err(NoLink::Fatal(Error::InUse { store: self.place.to_string() }));
        }
        Ok((WriteLink::prepare(client, close, session).await?, committed))
    }
}

fn drain(first: Request, requests: &mut mpsc::UnboundedReceiver<Request>) -> Vec<Request> {
    let mut bytes = first.bytes();
    let mut group = vec![first];
    while group.len() < MAX_GROUP_REQUESTS && bytes < MAX_GROUP_BYTES {
        let Ok(next) = requests.try_recv() else { break };
        bytes += next.bytes();
        group.push(next);
    }
    group
}

impl WriteLink {
    async fn prepare(client: Client, close: AbortHandle, session: i64) -> Result<WriteLink, ServerError> {
        let begin = client.prepare(BEGIN_GROUP).await?;
        let put_after = client.prepare(PUT_AFTER).await?;
        let together = client.prepare(APPEND_TOGETHER).await?;
        let append = client.prepare(APPEND).await?;
        let append_instead = client.prepare(APPEND_INSTEAD).await?;
        let delete = client.prepare(DELETE).await?;
        let calls = Statements { append, append_instead, delete };
        Ok(WriteLink { client, close, session, begin, put_after, together, calls })
    }

    /// Sends the whole transaction at once but for its end, which must know that everything before it was accepted.
    async fn attempt(&self, writer: Uuid, group: i64, calls: &[Call], patience: Duration) -> Attempt {
        let begin = self.client.batch_execute("begin");
        let values: [&(dyn ToSql + Sync); 3] = [&writer, &self.session, &group];
        let count_up = self.client.execute(&self.begin, &values);
        // The files of all were put after the first of them.
        let first_put = calls.iter().filter_map(Call::put_after).min();
        let say_so = async {
            match first_put {
                Some(number) => self.client.execute(&self.put_after, &[&number.to_string()]).await.map(drop),
                None => Ok(()),
            }
        };
        // Polled in this order, which is the order on the wire.
        let answers = timeout(patience, join4(begin, count_up, say_so, self.send(calls))).await;
        let Ok((begun, counted, said, outcomes)) = answers else { return Attempt::Silent };
        let outcomes = said.and(outcomes);
        match (begun, counted, outcomes) {
            (Ok(()), Ok(1), Ok(outcomes)) => match timeout(patience, self.client.batch_execute("commit")).await {
                Ok(Ok(())) => Attempt::Committed(outcomes),
                Ok(Err(error)) => Attempt::Unknown(Arc::new(error), outcomes),
                Err(_) => {
                    self.close.abort();
                    Attempt::Unknown(Error::cause(SILENT), outcomes)
                }
            },
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => Attempt::Nothing(error),
            (Ok(()), Ok(_), Ok(_)) => Attempt::Stale,
        }
    }

    /// Sends the calls of a group. What is sent with others and does not fit is sent once more, alone, which tells why.
    async fn send(&self, calls: &[Call]) -> Result<Vec<Outcome>, ServerError> {
        let split = Split::of(calls);
        let alone = try_join_all(split.alone().iter().map(|(at, call)| self.send_alone(*at, call)));
        let (together, alone) = join(split.send(&self.client, &self.together), alone).await;
        let mut outcomes: Vec<Option<Outcome>> = vec![None; calls.len()];
        let mut left = Vec::new();
        for (at, outcome) in together? {
            match outcome {
                Some(outcome) => outcomes[at] = Some(outcome),
                None => left.push(self.send_alone(at, &calls[at])),
            }
        }
        for (at, outcome) in alone?.into_iter().chain(try_join_all(left).await?) {
            outcomes[at] = Some(outcome);
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    async fn send_alone(&self, at: usize, call: &Call) -> Result<(usize, Outcome), ServerError> {
        Ok((at, call.send(&self.client, &self.calls).await?))
    }
}
