//! Wakes readers in other processes, and hears of their appends: LISTEN and NOTIFY carry no events and may be lost.
//!
//! An append never notifies in its own transaction: notifications take a lock of the whole database at commit. Each process
//! tells of many appends at once, after their commits and on a connection of its own. Whoever misses one finds the head when it
//! looks for itself: after connecting, and every two seconds, also while it cannot listen.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use super::heads::{Heads, Wake};
use super::link::Link;
use super::place::Place;
use super::read::Questions;
use super::session::{Backoff, connect};
use crate::domain::ids::{RunId, Seq};

/// How often heads of followed runs are looked up, whether something was heard or not.
const LOOK: Duration = Duration::from_secs(2);
/// Runs in one notification, which may have 8000 bytes.
const MOST_NAMED: usize = 100;
/// Said instead of more runs.
const MANY: &str = "*";

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
    while let Some(first) = wakes.recv().await {
        let (mut appended, mut followed) = (HashMap::new(), Vec::new());
        let mut next = Some(first);
        while let Some(wake) = next {
            match wake {
                Wake::Appended(run, head) => drop(appended.insert(run, head)),
                Wake::Followed(run) => followed.push(run),
            }
            next = wakes.try_recv().ok();
        }
        if !followed.is_empty() {
            look_up(&questions, &heads, followed).await;
        }
        if !appended.is_empty() {
            let (channel, text) = (channel.clone(), payload(&appended));
            // Not durable: a lost one costs a moment.
            let told = link.ask("notify others of", move |reader| {
                let (channel, text) = (channel.clone(), text.clone());
                Box::pin(async move {
                    let statement = reader
                        .prepared("select set_config('synchronous_commit', 'off', false), pg_notify($1, $2)")
                        .await?;
                    reader.client().execute(&statement, &[&channel, &text]).await
                })
            });
            let _ = told.await;
        }
    }
}

fn payload(appended: &HashMap<RunId, Seq>) -> String {
    if appended.len() > MOST_NAMED {
        return MANY.to_owned();
    }
    let named: Vec<String> = appended.iter().map(|(run, head)| format!("{}={head}", run.0.simple())).collect();
    named.join(" ")
}

fn parse(payload: &str) -> Option<Vec<(RunId, Seq)>> {
    let one = |text: &str| {
        let (run, head) = text.split_once('=')?;
        Some((RunId(Uuid::try_parse(run).ok()?), Seq(head.parse().ok()?)))
    };
    payload.split(' ').map(one).collect()
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
pub(super) async fn listen(place: Arc<Place>, name: String, questions: Questions, heads: Arc<Heads>) {
    let mut backoff = Backoff::default();
    loop {
        let (heard, mut said) = mpsc::unbounded_channel();
        let connected = async {
            let session = connect(&place, &name, Some(heard)).await?;
            session.client.batch_execute(&format!("listen {}", channel(&place))).await?;
            Ok::<_, tokio_postgres::Error>(session)
        };
        let Ok(mut session) = connected.await else {
            backoff.pause().await;
            continue;
        };
        backoff = Backoff::default();
        // What was said before this connection listened was not heard.
        look_up(&questions, &heads, heads.followed()).await;
        loop {
            tokio::select! {
                said = said.recv() => match said.as_deref().and_then(parse) {
                    Some(named) => named.iter().for_each(|(run, head)| heads.heard(run, *head)),
                    None => look_up(&questions, &heads, heads.followed()).await,
                },
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
    fn a_notification_names_runs_and_heads_and_too_many_are_not_named() {
        let run = |n: u128| RunId(Uuid::from_u128(n));
        let few: HashMap<_, _> = [(run(7), Seq(3))].into();
        assert_eq!(parse(&payload(&few)), Some(vec![(run(7), Seq(3))]));
        let most: HashMap<_, _> = (0..100).map(|n| (run(u128::MAX - n), Seq(u64::MAX))).collect();
        assert!(payload(&most).len() < 8000);
        let many: HashMap<_, _> = (0..101).map(|n| (run(n), Seq(1))).collect();
        assert_eq!((payload(&many).as_str(), parse(MANY)), ("*", None));
    }
}
