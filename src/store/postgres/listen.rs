//! Wakes readers in other processes, and hears of their appends: LISTEN and NOTIFY carry no events and may be lost.
//!
//! An append never notifies in its own transaction: notifications take a lock of the whole database at commit. Each process
//! tells of many appends at once, and of what came into the queue or is asked of a node, after their commits and on a connection of its own. Whoever misses one finds the head when it
//! looks for itself: after connecting, and every two seconds, also while it cannot listen. Whoever can connect to the database can
//! notify, too: what is said is looked up, never believed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, timeout};
use uuid::Uuid;

use super::heads::{Heads, Wake};
use super::link::Link;
use super::place::Place;
use super::read::Questions;
use super::session::{Backoff, NotConnected, connect};
use crate::domain::ids::{RunId, Seq};
use crate::store::NodeId;

/// How often heads of followed runs are looked up, whether something was heard or not.
const LOOK: Duration = Duration::from_secs(2);
/// Notifications that wait to be looked at. Where there were more, everything is looked for.
const WAITING: usize = 1000;
/// Runs in one notification, which may have 8000 bytes.
const MOST_NAMED: usize = 100;
/// Said instead of more runs.
const MANY: &str = "*";
/// Tells others, and of the queue only if something waits in it.
const TELL: &str = "select set_config('synchronous_commit', 'off', false), pg_notify($1, said) from (select case \
         when $3 and exists (select from runs where waits and owner is null) then concat_ws(' ', nullif($2, ''), '+') \
         else $2 end) as telling (said) where said <> ''";
/// Said when something may be taken from the queue.
const QUEUED: &str = "+";
/// Said before the node of which something is asked.
const ASKED: &str = "!";
/// Said when a record was changed. A program that does not know it looks for everything.
const RECORDS: &str = "~";

fn channel(place: &Place) -> String {
    format!("{}_heads", place.schema)
}

/// Tells others of appends, and looks up heads of runs that are followed from now on.
pub(super) async fn tell(
    place: Arc<Place>,
    link: Link,
    questions: Questions,
    heads: Arc<Heads>,
    mut wakes: mpsc::UnboundedReceiver<Wake>,
) {
    let channel = channel(&place);
    let mut queued: Option<Instant> = None;
    loop {
        let due = async {
            match queued {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let mut next = tokio::select! {
            biased;
            wake = wakes.recv() => match wake {
                Some(first) => Some(first),
                None => return,
            },
            () = due => None,
        };
        let (mut said, mut followed) = (Said::default(), Vec::new());
        while let Some(wake) = next {
            match wake {
                Wake::Appended(run, head) => drop(said.appended.insert(run, head)),
                Wake::Queued => {
                    queued.get_or_insert_with(|| Instant::now() + heads.own_first());
                }
                Wake::Asked(node) => drop(said.asked.insert(node)),
                Wake::Records => said.records = true,
                Wake::Followed(run) => followed.push(run),
            }
            next = wakes.try_recv().ok();
        }
        if !followed.is_empty() {
            look_up(&questions, &heads, followed).await;
        }
        let of_queue = queued.is_some_and(|at| at <= Instant::now());
        if of_queue {
            queued = None;
        }
        if of_queue || said != Said::default() {
            let (channel, text) = (channel.clone(), said.payload());
            // Not durable: a lost one costs a moment.
            let told = link.ask("notify others of", move |reader| {
                let (channel, text) = (channel.clone(), text.clone());
                Box::pin(async move {
                    let statement = reader.prepared(TELL).await?;
                    reader.client().execute(&statement, &[&channel, &text, &of_queue]).await
                })
            });
            let _ = told.await;
        }
    }
}

/// What a notification tells.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    appended: HashMap<RunId, Seq>,
    queued: bool,
    asked: HashSet<NodeId>,
    records: bool,
}

impl Said {
    fn payload(&self) -> String {
        if self.appended.len() + self.asked.len() > MOST_NAMED {
            return MANY.to_owned();
        }
        let runs = self.appended.iter().map(|(run, head)| format!("{}={head}", run.0.simple()));
        let nodes = self.asked.iter().map(|node| format!("{ASKED}{}", node.0.simple()));
        let queued = self.queued.then(|| QUEUED.to_owned());
        let records = self.records.then(|| RECORDS.to_owned());
        runs.chain(nodes).chain(queued).chain(records).collect::<Vec<_>>().join(" ")
    }

    /// What all of them tell; `None` if one does not name it, or if there were more than are listened to.
    fn of_all(payloads: impl ExactSizeIterator<Item = String>) -> Option<Said> {
        let mut all = Said::default();
        if payloads.len() >= WAITING {
            return None;
        }
        for payload in payloads {
            let Said { appended, queued, asked, records } = Said::parse(&payload)?;
            all.appended.extend(appended);
            all.asked.extend(asked);
            all.queued |= queued;
            all.records |= records;
        }
        Some(all)
    }

    /// `None` if it does not name what it tells of.
    fn parse(payload: &str) -> Option<Said> {
        let mut said = Said::default();
        for text in payload.split(' ') {
            if text == QUEUED {
                said.queued = true;
            } else if text == RECORDS {
                said.records = true;
            } else if let Some(node) = text.strip_prefix(ASKED) {
                said.asked.insert(NodeId(Uuid::try_parse(node).ok()?));
            } else {
                let (run, head) = text.split_once('=')?;
                said.appended.insert(RunId(Uuid::try_parse(run).ok()?), Seq(head.parse().ok()?));
            }
        }
        Some(said)
    }
}

/// Whether a notification with this text names what it tells of. What it was read as is written and read the same again.
#[cfg(any(test, fuzzing))]
pub(crate) fn foreign(payload: &str) -> bool {
    let said = Said::parse(payload);
    if let Some(said) = &said {
        let written = said.payload();
        assert!(written == MANY || Said::parse(&written).as_ref() == Some(said), "{written}");
    }
    said.is_some()
}

/// Who is woken here when there may be something to take, something was asked, or records were changed.
pub(super) struct Waker {
    pub(super) node: NodeId,
    pub(super) wake: Arc<Notify>,
    /// Set when something was asked of the node.
    pub(super) was_asked: Arc<AtomicBool>,
    pub(super) records: watch::Sender<u64>,
    /// How long the server may take to answer.
    pub(super) answer_patience: Duration,
}

impl Waker {
    fn all(&self) {
        self.was_asked.store(true, Ordering::Release);
        self.wake.notify_one();
        self.records();
    }

    fn records(&self) {
        self.records.send_modify(|count| *count += 1);
    }
}

/// Looks for itself, for as long as the store lives and whether anything can be heard or not.
pub(super) async fn look(questions: Questions, heads: Arc<Heads>) {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        look_up(&questions, &heads, heads.followed()).await;
    }
}

/// Hears of appends of others for as long as the store lives.
pub(super) async fn listen(place: Arc<Place>, questions: Questions, heads: Arc<Heads>, waker: Waker) {
    let mut backoff = Backoff::default();
    let patience = waker.answer_patience;
    loop {
        let (heard, mut said) = mpsc::channel(WAITING);
        let connected = async {
            let session = connect(&place, "skill-runner listener", Some(heard)).await?;
            session.client.batch_execute(&format!("listen {}", channel(&place))).await?;
            Ok::<_, NotConnected>(session)
        };
        let Ok(Ok(mut session)) = timeout(patience, connected).await else {
            backoff.pause().await;
            continue;
        };
        backoff = Backoff::default();
        // What was said before this connection listened was not heard.
        look_up(&questions, &heads, heads.followed()).await;
        waker.all();
        let mut asked = tokio::time::interval(patience);
        asked.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut all = Vec::new();
        loop {
            tokio::select! {
                count = said.recv_many(&mut all, WAITING) => {
                    if count == 0 {
                        break;
                    }
                    match Said::of_all(all.drain(..)) {
                        Some(said) => {
                            let news = said.appended.into_iter().filter(|(run, head)| heads.is_news(run, *head));
                            look_up(&questions, &heads, news.map(|(run, _)| run).collect()).await;
                            let is_asked = said.asked.contains(&waker.node);
                            if is_asked {
                                waker.was_asked.store(true, Ordering::Release);
                            }
                            if said.queued || is_asked {
                                waker.wake.notify_one();
                            }
                            if said.records {
                                waker.records();
                            }
                        }
                        None => {
                            look_up(&questions, &heads, heads.followed()).await;
                            waker.all();
                        }
                    }
                }
                // Nothing is said for long when nothing happens; an answer tells that something would be heard.
                _ = asked.tick() => {
                    if !matches!(timeout(patience, session.client.batch_execute("")).await, Ok(Ok(()))) {
                        session.close.abort();
                        break;
                    }
                }
                _ = &mut session.ended => break,
            }
        }
    }
}

/// Looks up the heads of runs, and wakes who follows them. What cannot be looked up now is at the next time.
async fn look_up(questions: &Questions, heads: &Heads, runs: Vec<RunId>) {
    if runs.is_empty() {
        return;
    }
    let Ok(found) = questions.heads(runs).await else { return };
    for (run, head, deleted) in found {
        if deleted {
            heads.deleted(&run);
        } else {
            heads.heard(&run, head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_names_runs_and_nodes_and_too_many_are_not_named() {
        let run = |n: u128| RunId(Uuid::from_u128(n));
        let of = |appended: HashMap<_, _>| Said { appended, ..Said::default() };
        let node = NodeId(Uuid::from_u128(9));
        let few = Said { queued: true, records: true, asked: [node].into(), ..of([(run(7), Seq(3))].into()) };
        assert_eq!(Said::parse(&few.payload()), Some(few));
        let most = of((0..100).map(|n| (run(u128::MAX - n), Seq(u64::MAX))).collect());
        assert!(most.payload().len() < 8000);
        assert_eq!(Said::parse(&most.payload()), Some(most));
        let many = of((0..101).map(|n| (run(n), Seq(1))).collect());
        assert_eq!((many.payload().as_str(), Said::parse(MANY)), ("*", None));
        let said = |payloads: &[&str]| {
            Said::of_all(payloads.iter().map(|&payload| payload.to_owned()).collect::<Vec<_>>().into_iter())
        };
        let both = said(&["+", "~"]);
        assert_eq!(both, Some(Said { queued: true, records: true, ..Said::default() }));
        assert_eq!(said(&["+", "nonsense", "~"]), None);
        // Some may have been dropped then.
        assert_eq!((said(&["+"; WAITING - 1]).is_some(), said(&["+"; WAITING])), (true, None));
    }
}
