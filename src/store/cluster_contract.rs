//! The contract of several services on one store, as tests that every back end must pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::contract::{events, run};
use super::{
    Append, BoxFuture, Cluster, Control, Error, EventStore, ForOthers, IndexChange, IndexKey, NodeId, NodeInfo,
    NodeLoad, RawPiece, record_contract,
};
use crate::domain::event::Started;
use crate::domain::fact::Stream;
use crate::domain::fair_queue::{Bounds, FairQueue, ShareRule, Ticket};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::interaction::{Interaction, InteractionId, InteractionKind};
use crate::domain::request::{ExecutionMode, RuntimeOptions, SkillRef};
use crate::domain::state::{Pending, Phase, RunState};
use crate::domain::time::Timestamp;
use crate::fcmp::{Chain, LogHead};

/// One service on the store.
pub struct View {
    pub store: Arc<dyn EventStore>,
    pub cluster: Arc<dyn Cluster>,
    pub node: NodeId,
}

/// Services on one new store, and a way to let time pass for their leases.
pub struct Services {
    pub views: Vec<View>,
    pub pass: Box<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>,
}

/// The rule with which the stores are to be opened.
pub fn share_rule() -> ShareRule {
    ShareRule { label: Some("who".to_owned()), tokens: false }
}

/// Both are longer than a test takes: leases end when the test says so.
pub(super) const LONG: Duration = Duration::from_secs(1_000_000);
pub(super) const SHORT: Duration = Duration::from_secs(3600);
pub(super) const FREE: Bounds = Bounds { running: usize::MAX, waiting: usize::MAX, per_engine: None, per_skill: None };

/// Checks every clause, each on a new store with four services.
pub async fn check(make: impl Fn() -> Services) -> Result<(), Error> {
    leases_end_by_the_clock_of_the_store(&make()).await?;
    a_run_belongs_to_one_service_and_stale_appends_are_refused(&make()).await?;
    an_append_that_ends_the_turn_gives_the_run_back(&make()).await?;
    runs_are_taken_as_one_queue_would_give_them(&make()).await?;
    equal_runs_are_not_taken_at_the_same_time(&make()).await?;
    no_run_is_taken_twice(&make()).await?;
    abandoned_runs_go_to_one_service_each(&make()).await?;
    what_is_asked_is_told_once_to_the_owner(&make()).await?;
    what_is_queued_wakes_other_services(&make()).await?;
    a_service_that_drains_takes_nothing(&make()).await?;
    runs_that_are_due_or_over_are_found(&make()).await?;
    raw_output_comes_and_goes_with_the_run(&make()).await?;
    record_contract::check(&make().views.iter().map(|view| view.cluster.clone()).collect::<Vec<_>>()).await
}

/// What a test says of a run.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) n: u128,
    priority: i8,
    who: &'static str,
    engine: &'static str,
    skill: &'static str,
    key: Option<&'static str>,
}

pub(super) fn sample(n: u128) -> Sample {
    Sample { n, priority: 0, who: "a", engine: "e", skill: "s", key: None }
}

impl Sample {
    pub(super) fn state(&self) -> RunState {
        let execution_mode = ExecutionMode::Auto;
        let started = Started {
            request_id: RequestId(Uuid::from_u128(self.n)),
            skill: SkillRef { id: self.skill.into(), version: "1".into(), fingerprint: String::new() },
            engine: self.engine.into(),
            model: None,
            execution_mode,
            runtime_options: RuntimeOptions {
                execution_mode,
                no_cache: false,
                debug: false,
                debug_keep_temp: false,
                verbose: false,
                interactive_auto_reply: true,
                interactive_reply_timeout_sec: 5,
                hard_timeout_seconds: 60,
                stall_timeout_seconds: 60,
                retry: None,
            },
            input: Map::new(),
            parameter: Map::new(),
            awaiting_upload: false,
            idempotency_sha256: None,
            cache_key: self.key.map(str::to_owned),
            engine_config_sha256: None,
            temporary: false,
            labels: BTreeMap::from([("who".to_owned(), self.who.to_owned())]),
            priority: self.priority,
            metadata: None,
            context: None,
            awaiting_files: Vec::new(),
            defaults: Default::default(),
            requested_by: None,
            traceparent: None,
        };
        RunState::open(run(self.n), &started, Timestamp::from_micros(1_000_000))
    }

    fn ticket(&self) -> Ticket {
        let share = share_rule().share_of(&self.state().labels, None);
        Ticket {
            run: run(self.n),
            priority: self.priority,
            share,
            engine: self.engine.into(),
            skill: self.skill.into(),
        }
    }

    /// An append of one event after which the run is in this phase.
    pub(super) fn append(&self, head: u64, phase: Phase) -> Result<Append, Error> {
        let state = RunState { phase, ..self.state() };
        let row = LogHead { state, chain: Chain::start(run(self.n)) }.to_row();
        let row = row.map_err(|error| Error::Malformed { reason: error.to_string() })?;
        let index = vec![IndexChange::Put(IndexKey::Run(run(self.n)), Bytes::from(row))];
        Ok(Append { index, ..events(run(self.n), Seq(head), 1) })
    }
}

impl View {
    pub(super) async fn join(&self, lease: Duration) -> Result<(), Error> {
        let info = NodeInfo {
            node: self.node,
            name: "node".into(),
            version: "1".into(),
            address: Some("http://x".into()),
            works: true,
            lease,
        };
        self.cluster.join(info).await
    }

    pub(super) async fn queue(&self, sample: &Sample) -> Result<(), Error> {
        self.store.append(sample.append(0, Phase::Queued)?).await.map(drop)
    }

    pub(super) async fn write(&self, sample: &Sample, head: u64, phase: Phase) -> Result<Seq, Error> {
        self.store.append(sample.append(head, phase)?).await
    }

    pub(super) async fn take(&self, most: usize) -> Result<Vec<RunId>, Error> {
        self.cluster.take(most, &FREE).await
    }
}

pub(super) async fn joined(services: &Services) -> Result<&[View], Error> {
    for view in &services.views {
        view.join(LONG).await?;
    }
    Ok(&services.views)
}

pub(super) fn is_not_owner<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::NotOwner)), "{result:?}");
}

async fn leases_end_by_the_clock_of_the_store(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = &*services.views else { return Ok(()) };
    one.queue(&sample(1)).await?;
    is_not_owner(one.take(1).await);
    one.join(SHORT).await?;
    two.join(LONG).await?;
    let renewed = two.cluster.renew(NodeLoad { running: 2, slots: 3 }).await?;
    assert_eq!((renewed.draining, renewed.queued), (false, BTreeMap::from([("=a".to_owned(), 1)])));
    (services.pass)(SHORT * 2).await;
    is_not_owner(one.take(1).await);
    is_not_owner(one.cluster.renew(NodeLoad::default()).await);
    let nodes = two.cluster.nodes().await?;
    let told = |view: &View| nodes.iter().find(|node| node.node == view.node).map(|node| (node.load, node.lease_left));
    assert_eq!(told(one), Some((NodeLoad::default(), None)));
    let lease = told(two);
    let is_good = |left: Option<Duration>| left.is_some_and(|left| left > LONG / 2 && left <= LONG);
    assert!(lease.is_some_and(|(load, left)| load == NodeLoad { running: 2, slots: 3 } && is_good(left)), "{lease:?}");
    // Who joins again can work again.
    one.join(LONG).await?;
    assert_eq!(one.take(1).await?, [run(1)]);
    one.queue(&Sample { who: "b", ..sample(2) }).await?;
    one.queue(&Sample { who: "c", ..sample(3) }).await?;
    let waiting = BTreeMap::from([("=b".to_owned(), 1), ("=c".to_owned(), 1)]);
    assert_eq!(two.cluster.renew(NodeLoad::default()).await?.queued, waiting);
    two.cluster.leave().await?;
    is_not_owner(two.take(1).await);
    Ok(())
}

async fn a_run_belongs_to_one_service_and_stale_appends_are_refused(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = &*services.views else { return Ok(()) };
    one.join(SHORT).await?;
    two.join(LONG).await?;
    let first = sample(1);
    two.queue(&first).await?;
    assert_eq!((one.take(2).await?, one.cluster.owns(run(1)), two.cluster.owns(run(1))), (vec![run(1)], true, false));
    is_not_owner(two.write(&first, 1, Phase::Canceled).await);
    assert_eq!(one.write(&first, 1, Phase::Running).await?, Seq(2));
    let late = one.write(&first, 1, Phase::Running).await;
    assert!(matches!(late, Err(Error::Conflict { actual: Seq(2) })), "{late:?}");
    (services.pass)(SHORT * 2).await;
    // Nobody has taken it over: the old owner still can.
    assert_eq!(one.write(&first, 2, Phase::Running).await?, Seq(3));
    assert_eq!(two.cluster.take_abandoned(9).await?, [run(1)]);
    is_not_owner(one.write(&first, 3, Phase::Running).await);
    assert!(!one.cluster.owns(run(1)));
    assert_eq!(two.write(&first, 3, Phase::Running).await?, Seq(4));
    // Also when it joins again, and does not know better.
    one.join(LONG).await?;
    is_not_owner(one.write(&first, 4, Phase::Running).await);
    assert_eq!(two.write(&first, 4, Phase::Failed).await?, Seq(5));
    assert_eq!(two.store.head(&run(1)).await?, Seq(5));
    Ok(())
}

async fn an_append_that_ends_the_turn_gives_the_run_back(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    let (first, second) = (sample(1), sample(2));
    one.queue(&first).await?;
    assert_eq!(one.take(1).await?, [run(1)]);
    one.write(&first, 1, Phase::Running).await?;
    assert!(one.cluster.owns(run(1)));
    one.write(&first, 2, waiting()).await?;
    assert!(!one.cluster.owns(run(1)), "the run waits for its user");
    // Whoever is answered queues it again, and another takes it.
    two.write(&first, 3, Phase::Queued).await?;
    assert_eq!(two.take(1).await?, [run(1)]);
    two.write(&first, 4, Phase::Running).await?;
    two.write(&first, 5, Phase::Queued).await?;
    assert_eq!((two.cluster.owns(run(1)), one.take(1).await?), (false, vec![run(1)]));
    // What is given back as it was is there for others.
    one.cluster.release(run(1)).await?;
    one.cluster.release(run(1)).await?;
    one.queue(&second).await?;
    assert_eq!((one.cluster.owns(run(1)), two.take(1).await?), (false, vec![run(1)]));
    two.write(&first, 6, Phase::Succeeded).await?;
    assert_eq!(one.take(9).await?, [run(2)]);
    Ok(())
}

pub(super) fn waiting() -> Phase {
    let interaction = Interaction {
        interaction_id: InteractionId(1),
        prompt: "?".into(),
        kind: InteractionKind::OpenText,
        options: Vec::new(),
        ui_hints: Value::Null,
        required_fields: Vec::new(),
        default_decision_policy: String::new(),
        context: Value::Null,
    };
    Phase::WaitingUser(Pending { interaction, asked_at: Timestamp::from_micros(1_000_000) })
}

/// Numbers that look like chance and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

async fn runs_are_taken_as_one_queue_would_give_them(services: &Services) -> Result<(), Error> {
    let views = joined(services).await?;
    let bounds = Bounds { per_engine: Some(4), per_skill: Some(3), ..FREE };
    let mut queue = FairQueue::new(bounds);
    let mut chance = Chance(7);
    let (mut samples, mut running): (BTreeMap<RunId, Sample>, Vec<(usize, RunId)>) = Default::default();
    for n in 1..=300_u128 {
        let at = usize::try_from(chance.below(views.len() as u64)).unwrap_or_default();
        let view = &views[at];
        match chance.below(5) {
            0..=2 => {
                let pick = |chance: &mut Chance, of: &[&'static str]| {
                    of[usize::try_from(chance.below(of.len() as u64)).unwrap_or_default()]
                };
                let sample = Sample {
                    priority: [0, 0, 0, 3, -2][usize::try_from(chance.below(5)).unwrap_or_default()],
                    who: pick(&mut chance, &["a", "b", "c", "d"]),
                    engine: pick(&mut chance, &["e", "f", "g"]),
                    skill: pick(&mut chance, &["s", "t", "u", "v"]),
                    ..sample(n)
                };
                view.queue(&sample).await?;
                queue.push(sample.ticket());
                samples.insert(run(n), sample);
            }
            3 => {
                let most = usize::try_from(chance.below(3)).unwrap_or_default() + 1;
                let expected: Vec<RunId> =
                    std::iter::from_fn(|| queue.next().map(|ticket| ticket.run)).take(most).collect();
                assert_eq!(view.cluster.take(most, &bounds).await?, expected, "step {n}");
                for run in expected {
                    view.write(&samples[&run], 1, Phase::Running).await?;
                    running.push((at, run));
                }
            }
            _ if !running.is_empty() => {
                let (at, run) =
                    running.swap_remove(usize::try_from(chance.below(running.len() as u64)).unwrap_or_default());
                views[at].write(&samples[&run], 2, Phase::Succeeded).await?;
                queue.finished(run);
            }
            _ => {}
        }
    }
    assert!(running.len() > 3 && queue.waiting() > 9, "the queue was used");
    Ok(())
}

async fn equal_runs_are_not_taken_at_the_same_time(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    let equal = [1, 2].map(|n| Sample { key: Some("k"), ..sample(n) });
    for sample in &equal {
        one.queue(sample).await?;
    }
    one.queue(&sample(3)).await?;
    assert_eq!(one.take(9).await?, [run(1), run(3)]);
    assert_eq!(two.take(9).await?, []);
    one.write(&equal[0], 1, Phase::Running).await?;
    assert_eq!(two.take(9).await?, []);
    one.write(&equal[0], 2, Phase::Succeeded).await?;
    assert_eq!(two.take(9).await?, [run(2)]);
    Ok(())
}

async fn no_run_is_taken_twice(services: &Services) -> Result<(), Error> {
    let views = joined(services).await?;
    for n in 1..=200 {
        views[0].queue(&sample(n)).await?;
    }
    let racing = views.iter().map(|view| {
        let cluster = view.cluster.clone();
        tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                let more = cluster.take(3, &FREE).await?;
                if more.is_empty() {
                    return Ok::<_, Error>(taken);
                }
                taken.extend(more);
            }
        })
    });
    let mut taken = Vec::new();
    for result in join_all(racing).await {
        match result {
            Ok(more) => taken.extend(more?),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((taken.len(), taken.iter().collect::<BTreeSet<_>>().len()), (200, 200));
    Ok(())
}

async fn abandoned_runs_go_to_one_service_each(services: &Services) -> Result<(), Error> {
    let (dead, others) = (&services.views[0], &services.views[1..]);
    dead.join(SHORT).await?;
    for other in others {
        other.join(LONG).await?;
    }
    for n in 1..=30 {
        dead.queue(&sample(n)).await?;
    }
    dead.take(25).await?;
    for n in 1..=20 {
        dead.write(&sample(n), 1, Phase::Running).await?;
    }
    assert_eq!(others[0].cluster.take_abandoned(99).await?, [], "its lease is good");
    (services.pass)(SHORT * 2).await;
    let racing = join_all(others.iter().map(|view| view.cluster.take_abandoned(8))).await;
    let taken = racing.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    assert_eq!(taken.len(), 20);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), (1..=20).map(run).collect());
    // Those that had not begun wait again, where they were.
    assert_eq!(others[0].take(99).await?, (21..=30).map(run).collect::<Vec<_>>());
    is_not_owner(dead.cluster.take_abandoned(9).await);
    // A process that starts again abandons what the one before owned.
    others[0].join(LONG).await?;
    is_not_owner(others[0].write(&sample(21), 1, Phase::Running).await);
    others[1].cluster.take_abandoned(99).await?;
    assert_eq!(others[1].take(99).await?, (21..=30).map(run).collect::<Vec<_>>());
    Ok(())
}

async fn what_is_asked_is_told_once_to_the_owner(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    let control = Control::Cancel { requested_by: "me".into(), reason: "why".into() };
    one.queue(&sample(1)).await?;
    assert!(!two.cluster.ask(run(1), control.clone()).await?, "nobody owns it");
    one.take(1).await?;
    let wake = one.cluster.wake();
    assert!(two.cluster.ask(run(1), control.clone()).await?);
    assert_eq!(two.cluster.asked().await?, []);
    let told = async {
        loop {
            wake.notified().await;
            let asked = one.cluster.asked().await?;
            if !asked.is_empty() {
                return Ok::<_, Error>(asked);
            }
        }
    };
    assert_eq!(told.await?, [(run(1), control)]);
    assert_eq!((one.cluster.asked().await?, one.cluster.asked().await?), (vec![], vec![]));
    Ok(())
}

async fn what_is_queued_wakes_other_services(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    let wake = two.cluster.wake();
    for n in 1..=3 {
        one.queue(&sample(n)).await?;
        // One may be left from before, but not three.
        wake.notified().await;
        assert_eq!(two.take(1).await?, [run(n)]);
    }
    Ok(())
}

async fn a_service_that_drains_takes_nothing(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    one.queue(&sample(1)).await?;
    assert!(two.cluster.drain(one.node, true).await?);
    assert!(!two.cluster.drain(NodeId(Uuid::from_u128(99)), true).await?);
    assert_eq!((one.take(9).await?, one.cluster.renew(NodeLoad::default()).await?.draining), (vec![], true));
    assert!(one.cluster.nodes().await?.iter().all(|node| node.draining == (node.node == one.node)));
    assert!(two.cluster.drain(one.node, false).await?);
    assert_eq!(one.take(9).await?, [run(1)]);
    Ok(())
}

async fn runs_that_are_due_or_over_are_found(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    for n in 1..=3 {
        one.queue(&sample(n)).await?;
    }
    assert_eq!((two.cluster.due(9).await?, two.cluster.unsealed(Duration::ZERO, 9).await?), (vec![], vec![]));
    one.write(&sample(1), 1, waiting()).await?;
    one.write(&sample(2), 1, Phase::Failed).await?;
    assert_eq!((two.cluster.due(9).await?, two.cluster.due(0).await?), (vec![run(1)], vec![]));
    assert_eq!(two.cluster.unsealed(Duration::ZERO, 9).await?, [run(2)]);
    assert_eq!(two.cluster.unsealed(LONG, 9).await?, []);
    one.write(&sample(1), 2, Phase::Queued).await?;
    one.store.delete_events(&run(2)).await?;
    assert_eq!((two.cluster.due(9).await?, two.cluster.unsealed(Duration::ZERO, 9).await?), (vec![], vec![]));
    Ok(())
}

async fn raw_output_comes_and_goes_with_the_run(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    let piece = |from: u64, text: &'static str| RawPiece {
        stream: Stream::Stdout,
        from,
        bytes: Bytes::from_static(text.as_bytes()),
    };
    for (head, raw) in [(0, vec![piece(0, "abc"), piece(3, "de")]), (1, vec![piece(5, "fgh")])] {
        let for_others = ForOthers { raw, ..ForOthers::default() };
        one.store.append(Append { for_others, ..events(run(1), Seq(head), 1) }).await?;
    }
    let read = async |stream: Stream, from: u64, most: usize| two.store.raw(&run(1), stream, from, most).await;
    assert_eq!(read(Stream::Stdout, 0, 99).await?, [piece(0, "abc"), piece(3, "de"), piece(5, "fgh")]);
    assert_eq!(read(Stream::Stdout, 1, 3).await?, [piece(1, "bc"), piece(3, "d")]);
    assert_eq!(read(Stream::Stdout, 7, 0).await?, [piece(7, "h")]);
    assert_eq!((read(Stream::Stdout, 8, 9).await?, read(Stream::Stderr, 0, 9).await?), (vec![], vec![]));
    two.store.delete_events(&run(1)).await?;
    assert_eq!(read(Stream::Stdout, 0, 9).await?, []);
    Ok(())
}

/// The row of a run that waits in the queue.
pub fn queued_row(n: u128) -> Vec<u8> {
    LogHead { state: sample(n).state(), chain: Chain::start(run(n)) }.to_row().unwrap_or_default()
}

/// Puts a run into the queue.
pub async fn queue(store: &dyn EventStore, n: u128) -> Result<(), Error> {
    store.append(sample(n).append(0, Phase::Queued)?).await.map(drop)
}
