//! The store of a simulated world: one writer as in the real one, slow, failing and overtaken at times, and dead after a crash.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use skill_runner::domain::codes::WarningCode;
use skill_runner::domain::command::Command;
use skill_runner::domain::decide;
use skill_runner::domain::event::Event;
use skill_runner::domain::fact::Fact;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::domain::outcome::Warning;
use skill_runner::domain::statechart::Status;
use skill_runner::fcmp::{Encoder, LogHead};
use skill_runner::orchestrator::Clock;
use skill_runner::store::{
    Append, AppendResult, BoxFuture, Durability, Error, EventBatch, EventStore, IndexChange, IndexKey, RunFilter,
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::world::{Sabotage, World};

/// A channel for each follower: which of several on one channel is woken first would be left to chance.
pub type Tails = Arc<Mutex<BTreeMap<RunId, Vec<watch::Sender<Seq>>>>>;

/// Where orders for the one writer go.
pub struct Orders<O> {
    world: Arc<World>,
    /// Unbounded, as there are only a handful of writers.
    sender: mpsc::UnboundedSender<O>,
}

impl<O> Orders<O> {
    /// And where the writer receives them.
    pub fn new(world: &Arc<World>) -> (Orders<O>, mpsc::UnboundedReceiver<O>) {
        let (sender, received) = mpsc::unbounded_channel();
        (Orders { world: world.clone(), sender }, received)
    }

    /// Gives an order; what the writer answers.
    pub fn give<T: Send + 'static>(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> O,
    ) -> BoxFuture<'static, Result<T, Error>> {
        if self.world.ending() {
            self.world.violated("something was written while the service was taken apart");
        }
        let (answer, answered) = oneshot::channel();
        let _ = self.sender.send(order(answer));
        Box::pin(async move { answered.await.unwrap_or(Err(Error::Closed)) })
    }
}

/// The store of one life.
pub struct Store {
    world: Arc<World>,
    orders: Orders<Order>,
    tails: Tails,
}

enum Order {
    Append(Append, oneshot::Sender<AppendResult>),
    DeleteEvents(RunId, oneshot::Sender<Result<(), Error>>),
    DeleteRun(RunId, Vec<IndexKey>, oneshot::Sender<Result<(), Error>>),
}

impl Store {
    /// Opens what became durable; on the runtime of this life.
    pub fn open(world: Arc<World>) -> Store {
        let (orders, received) = Orders::new(&world);
        let tails = Tails::default();
        let slowness = if world.chaos() { world.dice.weighted(&[(4, 0), (2, 10), (1, 300), (1, 4000)]) } else { 0 };
        // Refusals that follow each other are met only where they are many.
        let full_one_in = world.dice.weighted(&[(5, 40), (1, 3)]);
        let overtaken_one_in = world.dice.weighted(&[(5, 60), (1, 4)]);
        let writer = Writer { world: world.clone(), tails: tails.clone(), slowness, full_one_in, overtaken_one_in };
        tokio::spawn(writer.write(received));
        Store { world, orders, tails }
    }
}

struct Writer {
    world: Arc<World>,
    tails: Tails,
    /// Most milliseconds of a commit.
    slowness: u64,
    /// How many appends there are for one that finds the disk full.
    full_one_in: u64,
    /// How many appends there are for one that a second writer comes before.
    overtaken_one_in: u64,
}

impl Writer {
    async fn write(self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(order) = orders.recv().await {
            if self.slowness > 0 && self.world.chaos() {
                tokio::time::sleep(Duration::from_millis(self.world.dice.below(self.slowness))).await;
            }
            match order {
                Order::Append(append, answer) => {
                    let what = words(&self.world, &append);
                    self.world.effect(&what).await;
                    let outcome = self.append(append, &what).await;
                    self.world.effect(&format!("the answer to: {what}")).await;
                    let _ = answer.send(outcome);
                }
                Order::DeleteEvents(run, answer) => {
                    let what = format!("delete the events of {}", self.world.name(run));
                    self.world.effect(&what).await;
                    self.world.note(&what);
                    let outcome = self.world.disk.delete_events(&run).await;
                    self.tails.lock().unwrap().remove(&run);
                    self.world.effect(&format!("the answer to: {what}")).await;
                    let _ = answer.send(outcome);
                }
                Order::DeleteRun(run, rows, answer) => {
                    let what = format!("delete {}", self.world.name(run));
                    self.world.effect(&what).await;
                    self.world.note(&what);
                    let outcome = self.world.disk.delete_run(&run, rows).await;
                    self.tails.lock().unwrap().remove(&run);
                    self.world.effect(&format!("the answer to: {what}")).await;
                    let _ = answer.send(outcome);
                }
            }
        }
    }

    async fn append(&self, append: Append, what: &str) -> AppendResult {
        let run = append.run;
        if self.world.chaos() && self.world.dice.once_in(self.full_one_in) {
            self.world.note(format!("full: {what}"));
            return Err(Error::Full { path: PathBuf::from("the disk"), available: 0 });
        }
        if self.world.chaos() && self.world.dice.once_in(self.overtaken_one_in) {
            self.second_writer(run).await;
        }
        if self.world.sabotage == Sabotage::StoreForgets && append.expected_head.0 > 0 && self.world.dice.once_in(10) {
            return Ok(append.events.last().map_or(append.expected_head, EventBatch::last));
        }
        let row = append.index.iter().find_map(|change| match change {
            IndexChange::Put(IndexKey::Run(_), row) => Some(row.clone()),
            IndexChange::Put(..) | IndexChange::Delete(_) => None,
        });
        let outcome = self.world.disk.append(append).await;
        match &outcome {
            Ok(head) => {
                self.world.note(what);
                for tail in self.tails.lock().unwrap().get(&run).into_iter().flatten() {
                    tail.send_replace(*head);
                }
                self.nobody_outlives(run, row.as_ref());
            }
            Err(error) => self.world.note(format!("refused ({error}): {what}")),
        }
        outcome
    }

    fn nobody_outlives(&self, run: RunId, row: Option<&Bytes>) {
        let Some(head) = row.and_then(|row| LogHead::from_row(row).ok()) else { return };
        if head.state.status().is_final() && self.world.engines().iter().any(|(_, engine)| engine.run == run) {
            self.world.violated(format!("{} is final and its engine lives", self.world.name(run)));
        }
    }

    /// Somebody else has the log open too and writes a legal event.
    async fn second_writer(&self, run: RunId) {
        let Ok(Some(row)) = self.world.disk.index(&IndexKey::Run(run)).await else { return };
        let head = LogHead::from_row(&row).unwrap();
        if head.state.status() != Status::Running {
            return;
        }
        let warning = Warning::new(WarningCode::EngineRemark, "somebody else has this log open");
        let record = Command::Record(vec![Fact::own(Event::Warned(Box::new(warning)))]);
        let expected_head = head.state.head_seq;
        let decision = decide(Some(&head.state), record, None, self.world.now()).unwrap();
        for page in Encoder::resume(head).encode(decision, self.world.now()).unwrap() {
            let row = page.head.to_row().unwrap();
            let append = Append {
                run,
                expected_head,
                events: vec![EventBatch { first: page.first, count: page.count, ndjson: page.ndjson.into() }],
                index: vec![IndexChange::Put(IndexKey::Run(run), row.into())],
                require_absent: None,
                for_others: Default::default(),
            };
            self.world.note(format!("a second writer: {}", words(&self.world, &append)));
            self.world.book.lock().unwrap().written_by_others.insert(run);
            self.world.disk.append(append).await.unwrap();
        }
    }
}

/// An append in the trace.
pub fn words(world: &World, append: &Append) -> String {
    let name = world.name(append.run);
    let events = append.events.iter().flat_map(EventBatch::events);
    let words: Vec<String> = events.map(|(seq, bytes)| format!("{seq}:{}", kind(&bytes))).collect();
    format!("append {name} {}", words.join(" "))
}

/// An event's type, from its bytes: cheaper than reading it, and the first such key is the envelope's own.
fn kind(event: &[u8]) -> &str {
    let text = std::str::from_utf8(event).unwrap();
    text.split_once("\"type\":\"").and_then(|(_, rest)| rest.split_once('"')).map_or("?", |(kind, _)| kind)
}

/// What the disk of a simulated world says at once.
pub fn ready<T>(read: BoxFuture<'_, T>) -> T {
    read.now_or_never().unwrap()
}

impl EventStore for Store {
    fn append(&self, append: Append) -> BoxFuture<'static, AppendResult> {
        self.orders.give(|answer| Order::Append(append, answer))
    }

    fn head(&self, run: &RunId) -> BoxFuture<'_, Result<Seq, Error>> {
        self.world.disk.head(run)
    }

    fn read(&self, run: &RunId, after: Seq, max_bytes: usize) -> BoxFuture<'_, Result<Vec<EventBatch>, Error>> {
        self.world.disk.read(run, after, max_bytes)
    }

    fn watch(&self, run: &RunId) -> watch::Receiver<Seq> {
        let (sender, receiver) = watch::channel(ready(self.world.disk.head(run)).unwrap());
        self.tails.lock().unwrap().entry(*run).or_default().push(sender);
        receiver
    }

    fn index(&self, key: &IndexKey) -> BoxFuture<'_, Result<Option<Bytes>, Error>> {
        self.world.disk.index(key)
    }

    fn runs(&self, before: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        self.world.disk.runs(before, limit)
    }

    fn runs_with(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunId, Bytes)>, Error>> {
        self.world.disk.runs_with(filter, before, limit)
    }

    fn open_runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        self.world.disk.open_runs()
    }

    fn delete_events(&self, run: &RunId) -> BoxFuture<'static, Result<(), Error>> {
        let run = *run;
        self.orders.give(|answer| Order::DeleteEvents(run, answer))
    }

    fn delete_run(&self, run: &RunId, index: Vec<IndexKey>) -> BoxFuture<'static, Result<(), Error>> {
        let run = *run;
        self.orders.give(|answer| Order::DeleteRun(run, index, answer))
    }

    fn durability(&self) -> Durability {
        Durability::PowerLoss
    }
}
