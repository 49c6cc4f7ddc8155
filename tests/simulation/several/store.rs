//! The store as one of several nodes reaches it: one writer in each life, questions that are late or lost, wakes that do not come.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use skill_runner::domain::fact::Stream;
use skill_runner::domain::fair_queue::Bounds;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::store::{
    Append, AppendResult, BoxFuture, Changed, Cluster, Control, Durability, Error, EventBatch, EventStore, IndexKey,
    LeaseId, MemoryNode, Node, NodeId, NodeInfo, NodeLoad, RawPiece, RecordChange, Records, Renewed, RunFilter,
};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::link::{Commit, Link, away};
use super::workers::{WorkerId, Workers};
use crate::store::{Orders, Tails, ready, words};
use crate::world::{Sabotage, World};

/// How often a node looks for heads that it was not told of.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The store in one life of a node.
pub struct NodeStore {
    world: Arc<World>,
    link: Arc<Link>,
    pub(super) node: Arc<MemoryNode>,
    workers: Arc<Workers>,
    orders: Orders<Order>,
    tails: Tails,
    wake: Arc<Notify>,
    /// Runs that were taken, and the answer was lost.
    lost: Mutex<Vec<RunId>>,
}

enum Order {
    Append(String, RunId, Commit, oneshot::Sender<AppendResult>),
    Delete(RunId, Option<Vec<IndexKey>>, oneshot::Sender<Result<(), Error>>),
}

impl NodeStore {
    /// On the runtime of this life.
    pub fn open(link: &Arc<Link>, workers: &Arc<Workers>, id: NodeId) -> Arc<NodeStore> {
        let world = link.world.clone();
        let node = Arc::new(MemoryNode::new(world.disk.clone(), id));
        let (orders, received) = Orders::new(&world);
        let (tails, wake) = (Tails::default(), Arc::new(Notify::new()));
        workers.begins(world.node());
        link.serves(&node);
        let writer = Writer { world: world.clone(), link: link.clone(), node: node.clone(), tails: tails.clone() };
        tokio::spawn(writer.write(received));
        tokio::spawn(listen(world.clone(), link.clone(), tails.clone()));
        let (heard, told) = (node.wake(), wake.clone());
        let way = link.clone();
        tokio::spawn(async move {
            loop {
                heard.notified().await;
                if !way.loses_wake() {
                    way.pause().await;
                    told.notify_one();
                }
            }
        });
        let (link, workers) = (link.clone(), workers.clone());
        Arc::new(NodeStore { world, link, node, workers, orders, tails, wake, lost: Mutex::default() })
    }

    /// Asks the store; its answer may be old when it comes.
    pub(super) fn question<'a, T: Send + 'a>(
        &'a self,
        question: impl FnOnce() -> BoxFuture<'a, Result<T, Error>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, Error>> {
        Box::pin(async move {
            self.link.reach().await?;
            let answer = ready(question());
            self.link.pause().await;
            answer
        })
    }

    /// Changes a record. It may be long on its way, and nobody may hear that it was made.
    pub(super) fn change<'a>(
        &'a self,
        change: impl FnOnce() -> BoxFuture<'a, Result<Changed, Error>> + Send + 'a,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async move {
            self.link.reach().await?;
            if self.world.chaos() && self.world.dice.once_in(3) {
                self.link.linger(self.world.dice.below(8_000)).await;
            }
            if self.world.chaos() && self.link.stops() {
                self.world.note("stopped while changing a record");
                self.link.linger(1_000 + self.world.dice.below(30_000)).await;
            }
            self.world.effect("a change of a record").await;
            let answer = ready(change());
            if let Err(error) = &answer {
                self.world.note(format!("a record is not changed: {error}"));
            }
            if self.world.chaos() && self.world.dice.once_in(12) {
                self.world.note("a record is changed, and unknown");
                self.link.linger(self.world.dice.below(60_000)).await;
                return Err(away());
            }
            self.world.effect("the answer to a change of a record").await;
            self.link.pause().await;
            answer
        })
    }

    /// What was taken is known, unless the answer is lost: then it comes with the next.
    fn taken(&self, taken: Vec<RunId>, most: usize, whose: &str) -> Result<Vec<RunId>, Error> {
        let mut lost = self.lost.lock().unwrap();
        if !taken.is_empty() {
            let names: Vec<String> = taken.iter().map(|run| self.world.name(*run)).collect();
            self.world.note(format!("takes {}{whose}", names.join(" ")));
        }
        if !taken.is_empty() && self.world.chaos() && self.world.dice.once_in(20) {
            self.world.note("the answer to a take is lost");
            lost.extend(taken);
            return Err(away());
        }
        let mut all: Vec<RunId> = lost.drain(..).filter(|run| self.node.owns(*run)).collect();
        all.extend(taken);
        // No more than there is room for; the store would give the others again.
        let rest = all.split_off(all.len().min(most));
        lost.extend(rest);
        Ok(all)
    }
}

/// Raises the heads that followers wait for: when it is told of a change, and now and then.
async fn listen(world: Arc<World>, link: Arc<Link>, tails: Tails) {
    loop {
        let runs = tokio::select! {
            biased;
            () = link.heads.notified() => link.changed().into_iter().collect(),
            () = tokio::time::sleep(LOOK_EVERY) => tails.lock().unwrap().keys().copied().collect::<Vec<RunId>>(),
        };
        if link.is_cut() {
            continue;
        }
        for run in runs {
            let head = ready(world.disk.head(&run)).unwrap();
            raise(&tails, run, head);
        }
    }
}

fn raise(tails: &Tails, run: RunId, head: Seq) {
    let mut tails = tails.lock().unwrap();
    let Some(followers) = tails.get_mut(&run) else { return };
    if head == Seq::START && followers.iter().any(|follower| *follower.borrow() > head) {
        // Its events were deleted.
        tails.remove(&run);
        return;
    }
    followers.retain(|follower| !follower.is_closed());
    for follower in followers.iter().filter(|follower| *follower.borrow() < head) {
        follower.send_replace(head);
    }
    if followers.is_empty() {
        tails.remove(&run);
    }
}

struct Writer {
    world: Arc<World>,
    link: Arc<Link>,
    node: Arc<MemoryNode>,
    tails: Tails,
}

/// How a commit goes.
#[derive(Clone, Copy)]
enum Fate {
    Answered,
    /// It happens, and the connection is lost before the answer: the next connection tells.
    CommittedUnknown,
    /// The connection is lost before, and it is sent again.
    SentAgain,
    /// The node is stopped before.
    SentLate,
}

impl Writer {
    async fn write(self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(order) = orders.recv().await {
            {
                self.link.until_whole().await;
                self.link.pause().await;
                match order {
                    Order::Append(what, run, commit, answer) => self.append(&what, run, commit, answer).await,
                    Order::Delete(run, rows, answer) => {
                        let all = if rows.is_some() { "" } else { "the events of " };
                        let what = format!("delete {all}{}", self.world.name(run));
                        self.world.effect(&what).await;
                        self.world.note(&what);
                        let outcome = match rows {
                            Some(rows) => self.node.delete_run(&run, rows).await,
                            None => self.node.delete_events(&run).await,
                        };
                        self.tails.lock().unwrap().remove(&run);
                        self.world.effect(&format!("the answer to: {what}")).await;
                        let _ = answer.send(outcome);
                    }
                }
            }
        }
    }

    async fn append(&self, what: &str, run: RunId, commit: Commit, answer: oneshot::Sender<AppendResult>) {
        self.link.takes_off(run, commit);
        self.world.effect(what).await;
        let chaos = self.world.chaos();
        let fate = match () {
            () if chaos && self.link.stops() => Fate::SentLate,
            () if chaos && self.world.dice.once_in(25) => Fate::CommittedUnknown,
            () if chaos && self.world.dice.once_in(25) => Fate::SentAgain,
            () => Fate::Answered,
        };
        match fate {
            Fate::SentAgain => {
                self.world.note(format!("not committed, and unknown: {what}"));
                self.unknown().await;
            }
            Fate::SentLate => {
                self.world.note(format!("stopped while committing: {what}"));
                self.link.linger(1_000 + self.world.dice.below(30_000)).await;
            }
            Fate::Answered | Fate::CommittedUnknown => {}
        }
        let Some(outcome) = self.link.lands() else { return };
        if matches!(fate, Fate::CommittedUnknown) {
            self.world.note(format!("is committed, and unknown: {what}"));
            self.unknown().await;
        }
        if let Ok(head) = outcome {
            raise(&self.tails, run, head);
        }
        self.world.effect(&format!("the answer to: {what}")).await;
        let _ = answer.send(outcome);
    }

    /// Nobody knows whether a commit happened until there is another connection.
    async fn unknown(&self) {
        let most = self.world.dice.weighted(&[(4, 300), (2, 4_000), (1, 60_000)]);
        self.link.linger(self.world.dice.below(most)).await;
        self.link.until_whole().await;
    }
}

/// An append that tells of itself when it is made.
fn committing(
    world: Arc<World>,
    workers: Arc<Workers>,
    by: WorkerId,
    append: Append,
    what: String,
    commit: impl FnOnce() -> AppendResult + Send + 'static,
) -> Commit {
    Box::new(move || {
        let mut outcome = commit();
        if matches!(outcome, Err(Error::NotOwner)) && world.sabotage == Sabotage::EpochsIgnored {
            outcome = ready(world.disk.append(append.clone()));
        }
        match &outcome {
            Ok(head) => {
                world.note(&what);
                workers.appended(&world, by, *head, &append);
            }
            Err(error) => world.note(format!("refused ({error}): {what}")),
        }
        outcome
    })
}

impl EventStore for NodeStore {
    fn append(&self, append: Append) -> BoxFuture<'static, AppendResult> {
        let (what, run) = (words(&self.world, &append), append.run);
        // In whose name it is made is settled now, however late it reaches the store.
        let by = self.workers.id(self.world.node());
        let commit = self.node.append_later(append.clone());
        let commit = committing(self.world.clone(), self.workers.clone(), by, append, what.clone(), commit);
        self.orders.give(|answer| Order::Append(what, run, commit, answer))
    }

    fn head(&self, run: &RunId) -> BoxFuture<'_, Result<Seq, Error>> {
        let run = *run;
        self.question(move || self.node.head(&run))
    }

    fn read(&self, run: &RunId, after: Seq, max_bytes: usize) -> BoxFuture<'_, Result<Vec<EventBatch>, Error>> {
        let run = *run;
        self.question(move || self.node.read(&run, after, max_bytes))
    }

    fn watch(&self, run: &RunId) -> watch::Receiver<Seq> {
        // What it knows may be old, and it is told within two seconds.
        let (sender, receiver) = watch::channel(ready(self.world.disk.head(run)).unwrap());
        self.tails.lock().unwrap().entry(*run).or_default().push(sender);
        receiver
    }

    fn index(&self, key: &IndexKey) -> BoxFuture<'_, Result<Option<Bytes>, Error>> {
        let key = *key;
        self.question(move || self.node.index(&key))
    }

    fn runs(&self, before: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        self.question(move || self.node.runs(before, limit))
    }

    fn runs_with(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        let filter = filter.clone();
        self.question(move || self.node.runs_with(&filter, before, limit))
    }

    fn open_runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        self.question(move || self.node.open_runs())
    }

    fn delete_events(&self, run: &RunId) -> BoxFuture<'static, Result<(), Error>> {
        let run = *run;
        self.orders.give(|answer| Order::Delete(run, None, answer))
    }

    fn delete_run(&self, run: &RunId, index: Vec<IndexKey>) -> BoxFuture<'static, Result<(), Error>> {
        let run = *run;
        self.orders.give(|answer| Order::Delete(run, Some(index), answer))
    }

    fn raw(
        &self,
        run: &RunId,
        stream: Stream,
        from: u64,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<RawPiece>, Error>> {
        let run = *run;
        self.question(move || self.node.raw(&run, stream, from, max_bytes))
    }

    fn durability(&self) -> Durability {
        Durability::PowerLoss
    }
}

impl Cluster for NodeStore {
    fn join(&self, info: NodeInfo) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.world.effect("it joins").await;
            self.link.reach().await?;
            let lease = info.lease;
            self.node.join(info).await?;
            self.workers.joins(&self.world, lease);
            self.lost.lock().unwrap().clear();
            self.world.note("joins");
            self.link.pause().await;
            Ok(())
        })
    }

    fn renew(&self, load: NodeLoad) -> BoxFuture<'_, Result<Renewed, Error>> {
        Box::pin(async move {
            self.link.reach().await?;
            let renewed = self.node.renew(load).await;
            match &renewed {
                Ok(_) => self.workers.renews(&self.world),
                Err(error) => self.world.note(format!("the lease is not renewed: {error}")),
            }
            self.link.pause().await;
            renewed
        })
    }

    fn leave(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.link.reach().await?;
            self.workers.leaves(self.world.node());
            self.node.leave().await
        })
    }

    fn lease(&self) -> Option<LeaseId> {
        self.node.lease()
    }

    fn lease_is_over(&self, lease: LeaseId) -> BoxFuture<'_, Result<bool, Error>> {
        self.question(move || self.node.lease_is_over(lease))
    }

    fn change_record_under(&self, lease: LeaseId, change: RecordChange) -> BoxFuture<'_, Result<Changed, Error>> {
        self.change(move || match self.world.sabotage {
            Sabotage::RecordsIgnoreLeases => self.node.change_record(change),
            _ => self.node.change_record_under(lease, change),
        })
    }

    fn take(&self, most: usize, bounds: &Bounds) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        let bounds = *bounds;
        Box::pin(async move {
            self.link.reach().await?;
            let free = most.saturating_sub(self.lost.lock().unwrap().len());
            let taken = self.node.take(free, &bounds).await?;
            self.workers.took(&self.world, &taken);
            let taken = self.taken(taken, most, "");
            self.link.pause().await;
            taken
        })
    }

    fn take_abandoned(&self, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        Box::pin(async move {
            self.link.reach().await?;
            if self.world.sabotage == Sabotage::TakeOversForgotten {
                return Ok(Vec::new());
            }
            let taken = self.node.take_abandoned(most).await?;
            self.workers.took_over(&self.world, &taken);
            if !taken.is_empty() {
                let names: Vec<String> = taken.iter().map(|run| self.world.name(*run)).collect();
                self.world.note(format!("takes over {}", names.join(" ")));
            }
            self.link.pause().await;
            Ok(taken)
        })
    }

    fn release(&self, run: RunId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.link.reach().await?;
            self.world.note(format!("gives {} back", self.world.name(run)));
            self.workers.gives_back(&self.world, run);
            self.node.release(run).await
        })
    }

    fn owns(&self, run: RunId) -> bool {
        self.node.owns(run) && !self.lost.lock().unwrap().contains(&run)
    }

    fn due(&self, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        self.question(move || self.node.due(most))
    }

    fn unsealed(&self, over_for: Duration, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        self.question(move || self.node.unsealed(over_for, most))
    }

    fn ask(&self, run: RunId, control: Control) -> BoxFuture<'_, Result<bool, Error>> {
        self.question(move || {
            self.world.note(format!("asks the owner of {}", self.world.name(run)));
            self.node.ask(run, control)
        })
    }

    fn asked(&self) -> BoxFuture<'_, Result<Vec<(RunId, Control)>, Error>> {
        self.question(move || self.node.asked())
    }

    fn wake(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<Node>, Error>> {
        self.question(move || self.node.nodes())
    }

    fn drain(&self, node: NodeId, draining: bool) -> BoxFuture<'_, Result<bool, Error>> {
        self.question(move || self.node.drain(node, draining))
    }

    fn unused_files(&self, among: &[[u8; 32]]) -> BoxFuture<'_, Result<Vec<[u8; 32]>, Error>> {
        let among = among.to_vec();
        self.question(move || self.node.unused_files(&among))
    }
}
