//! Connections are lost, also in the middle of a commit, and the server restarts: nothing is lost, doubled or wrongly refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use skill_runner::domain::ids::Seq;
use skill_runner::store::{Append, Error, EventStore, IndexChange, IndexKey, Postgres, PostgresStore, contract};

use super::{open, open_with, until};
use crate::support::postgres::{self, Proxy, Server, When, fresh};
use crate::support::random::Random;

/// An append that also claims a key, as the creation of a run does.
fn claim(run: u128, head: u64, key: u8) -> Append {
    let key = IndexKey::Idempotency([key; 32]);
    let value = Bytes::copy_from_slice(contract::run(run).as_bytes());
    Append {
        index: vec![IndexChange::Put(key, value)],
        require_absent: Some(key),
        for_others: Default::default(),
        ..contract::events(contract::run(run), Seq(head), 3)
    }
}

fn is_commit(bytes: &[u8]) -> bool {
    bytes.windows(7).any(|window| window == b"commit\0")
}

/// Cuts the n-th commit and lets all others pass.
async fn cut_during_commit(when: When) {
    let (server, schema) = (postgres::shared(), fresh());
    drop(open(server, &schema));
    let commits = Arc::new(AtomicU64::new(0));
    let counted = commits.clone();
    let proxy = Proxy::to(server.address(), move |bytes| {
        let cut = is_commit(bytes) && counted.fetch_add(1, Ordering::SeqCst) % 3 == 1;
        if cut { when } else { When::Pass }
    });
    let store = open_with(&Postgres::new(server.url_at(proxy.address, &schema)));
    let mut head = Seq::START;
    for n in 0..12 {
        // Appends of several runs that share the commit, one of which claims a key that is taken.
        let others = (10..13).map(|run| store.append(contract::events(contract::run(run), Seq(n * 2), 2)));
        let others: Vec<_> = others.collect();
        let key = u8::try_from(n).unwrap();
        let (claimed, late) = (store.append(claim(1, head.0, key)), store.append(claim(99, 0, key)));
        head = claimed.await.unwrap();
        assert_eq!(head, Seq((n + 1) * 3));
        let late = late.await.unwrap_err();
        assert!(matches!(late, Error::Taken { .. }), "{late:?}");
        for other in join_all(others).await {
            assert_eq!(other.unwrap(), Seq(n * 2 + 2));
        }
    }
    assert!(proxy.cuts.load(Ordering::Relaxed) >= 4, "commits were cut");
    assert_eq!(contract::holds_whole_log(&store, contract::run(1)).await.unwrap(), head);
    for run in 10..13 {
        assert_eq!(contract::holds_whole_log(&store, contract::run(run)).await.unwrap(), Seq(24));
    }
    assert_eq!(store.head(&contract::run(99)).await.unwrap(), Seq::START);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_swallows_everything_is_given_up_and_nothing_is_lost() {
    if !postgres::installed("a connection to PostgreSQL that swallows everything is given up") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    drop(open(server, &schema));
    // One packet in thirty is the last that its connection hands on, begun when the store is open.
    let packets = Arc::new(AtomicU64::new(0));
    let counted = packets.clone();
    let proxy = Proxy::to(server.address(), move |_| {
        let before = counted.load(Ordering::SeqCst) > 0;
        let swallow = before && counted.fetch_add(1, Ordering::SeqCst).is_multiple_of(30);
        if swallow { When::Swallow } else { When::Pass }
    });
    let options =
        Postgres { answer_patience: Duration::from_secs(1), ..Postgres::new(server.url_at(proxy.address, &schema)) };
    let store = open_with(&options);
    packets.store(15, Ordering::SeqCst);
    for n in 0..40 {
        let head = store.append(contract::events(contract::run(7), Seq(n), 1)).await.unwrap();
        assert_eq!((head, store.head(&contract::run(7)).await.unwrap()), (Seq(n + 1), Seq(n + 1)));
    }
    assert!(proxy.cuts.load(Ordering::Relaxed) >= 3, "connections were silent");
    packets.store(0, Ordering::SeqCst);
    assert_eq!(contract::holds_whole_log(&store, contract::run(7)).await.unwrap(), Seq(40));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_happened_once() {
    if postgres::installed("a commit of PostgreSQL whose answer is lost happened once") {
        cut_during_commit(When::After).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_never_arrived_is_sent_again() {
    if postgres::installed("a commit that never reached PostgreSQL is sent again") {
        cut_during_commit(When::Before).await;
    }
}

/// Appends to its runs until told to stop; returns their heads.
async fn appending(store: Arc<PostgresStore>, n: u128, stop: Arc<AtomicU64>) -> Seq {
    let mut head = Seq::START;
    while stop.load(Ordering::Relaxed) == 0 {
        let mut append = contract::events(contract::run(n), head, 2);
        append.index = vec![IndexChange::Put(IndexKey::Run(contract::run(n)), Bytes::from(head.0.to_string()))];
        head = store.append(append).await.unwrap();
    }
    head
}

/// Follows a run from its first event, as a feed does: each event once, in order, until the head that is sent in the end.
async fn following(store: Arc<PostgresStore>, n: u128, end: tokio::sync::watch::Receiver<Option<Seq>>) -> Seq {
    let run = contract::run(n);
    let (mut watch, mut cursor, mut end) = (store.watch(&run), Seq::START, end);
    loop {
        watch.borrow_and_update();
        for batch in store.read(&run, cursor, 64 * 1024).await.unwrap() {
            for (seq, text) in batch.events() {
                assert_eq!(seq, Seq(cursor.0 + 1), "each event once, in order");
                assert!(text.windows(8).any(|window| window == b"\"seq\":1," || window.starts_with(b"\"seq\":")));
                cursor = seq;
            }
        }
        if end.borrow_and_update().is_some_and(|end| cursor >= end) {
            return cursor;
        }
        if *watch.borrow() <= cursor {
            tokio::select! {
                changed = watch.changed() => changed.unwrap(),
                changed = end.changed() => changed.unwrap(),
            }
        }
    }
}

/// Load while `disturb` does its worst; then everything is as it was acknowledged.
async fn under_load(store: PostgresStore, disturb: impl AsyncFnOnce()) {
    let (store, stop) = (Arc::new(store), Arc::new(AtomicU64::new(0)));
    let (ends, end): (Vec<_>, Vec<_>) = (0..6).map(|_| tokio::sync::watch::channel(None)).unzip();
    let followers: Vec<_> =
        end.into_iter().zip(0..).map(|(end, n)| tokio::spawn(following(store.clone(), n, end))).collect();
    let appenders: Vec<_> = (0..6).map(|n| tokio::spawn(appending(store.clone(), n, stop.clone()))).collect();
    disturb().await;
    stop.store(1, Ordering::Relaxed);
    for ((appender, follower), (n, end)) in appenders.into_iter().zip(followers).zip((0..).zip(ends)) {
        let head = appender.await.unwrap();
        end.send(Some(head)).unwrap();
        assert_eq!(follower.await.unwrap(), head);
        assert_eq!(contract::holds_whole_log(&*store, contract::run(n)).await.unwrap(), head);
        assert!(head > Seq::START);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_survives_restarts_and_crashes_of_its_server() {
    if !postgres::installed("a store survives restarts and crashes of PostgreSQL") {
        return;
    }
    let server = Arc::new(Server::start(&[]));
    let store = open(&server, "s");
    let probe = contract::run(0);
    let restarted = server.clone();
    let watch = store.watch(&probe);
    under_load(store, async move || {
        for round in 0..6 {
            let (server, mut watch) = (restarted.clone(), watch.clone());
            watch.borrow_and_update();
            watch.changed().await.unwrap();
            tokio::task::spawn_blocking(move || {
                if round % 2 == 0 {
                    server.crash()
                } else {
                    server.end()
                }
                server.run();
            })
            .await
            .unwrap();
        }
        let mut watch = watch.clone();
        watch.borrow_and_update();
        watch.changed().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_survives_cut_connections_at_any_moment() {
    if !postgres::installed("a store survives cut connections to PostgreSQL") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let proxy = Proxy::to(server.address(), |_| When::Pass);
    let store = open_with(&Postgres::new(server.url_at(proxy.address, &schema)));
    let mut watch = store.watch(&contract::run(3));
    let mut random = Random::seeded();
    under_load(store, async || {
        for round in 0..60 {
            watch.borrow_and_update();
            watch.changed().await.unwrap();
            // The moment is the random part, not a wait for something.
            tokio::time::sleep(std::time::Duration::from_millis(random.below(20))).await;
            proxy.cut();
            if round % 20 == 7 {
                proxy.refuse(true);
                tokio::time::sleep(std::time::Duration::from_millis(random.below(200))).await;
                proxy.refuse(false);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stays_away_is_told_and_then_ends_the_store() {
    if !postgres::installed("a PostgreSQL server that stays away is told") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let proxy = Proxy::to(server.address(), |_| When::Pass);
    let (fatal, failed) = std::sync::mpsc::channel();
    let patience = std::time::Duration::from_millis(300);
    let url = server.url_at(proxy.address, &schema);
    let options = Postgres { write_patience: patience, read_patience: patience, ..Postgres::new(url) };
    let store = PostgresStore::open(&options, None, move |error| drop(fatal.send(error.clone()))).unwrap();
    store.append(contract::events(contract::run(1), Seq(0), 2)).await.unwrap();
    assert_eq!(store.head(&contract::run(1)).await.unwrap(), Seq(2));
    until("all is well", async || store.trouble().is_none()).await;
    proxy.refuse(true);
    until("it is told", async || store.trouble().is_some()).await;
    assert!(matches!(store.head(&contract::run(1)).await, Err(Error::Unreachable { .. })));
    proxy.refuse(false);
    // Reads work again by themselves.
    until("it comes back", async || store.head(&contract::run(1)).await.is_ok_and(|head| head == Seq(2))).await;
    proxy.refuse(true);
    let error = store.append(contract::events(contract::run(1), Seq(2), 2)).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(matches!(failed.recv_timeout(crate::support::LONG).unwrap(), Error::Unavailable { .. }));
}

/// A URL with several servers, and a real fail-over: the replica has every acknowledged commit, and becomes the one that writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_goes_on_with_the_replica_when_its_server_is_lost() {
    if !postgres::installed("a store goes on with the replica of a lost PostgreSQL server") {
        return;
    }
    let first = Arc::new(Server::start(&["synchronous_standby_names = '*'"]));
    let replica = Arc::new(Server::replica_of(&first));
    let both = |one: &Server, two: &Server| {
        let address = one.address().to_string();
        one.url("s").replace(&address, &format!("{},{}", two.address(), address))
    };
    // The replica is named first, and refuses to be written.
    let store = open_with(&Postgres::new(both(&first, &replica)));
    let probe = store.watch(&contract::run(0));
    under_load(store, async || {
        let moves = async || {
            let mut probe = probe.clone();
            probe.borrow_and_update();
            probe.changed().await.unwrap();
        };
        moves().await;
        let (first, replica) = (first.clone(), replica.clone());
        tokio::task::spawn_blocking(move || {
            first.crash();
            replica.promote();
        })
        .await
        .unwrap();
        moves().await;
    })
    .await;
    assert_eq!(replica.sql("select pg_is_in_recovery()"), "f");
}

#[tokio::test]
async fn a_database_that_lost_acknowledged_commits_is_not_written_to() {
    if !postgres::installed("a PostgreSQL database that lost commits is not written to") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let (fatal, failed) = std::sync::mpsc::channel();
    let store =
        PostgresStore::open(&super::options(server, &schema), None, move |error| drop(fatal.send(error.clone())));
    let store = store.unwrap();
    for head in 0..4 {
        store.append(contract::events(contract::run(1), Seq(head), 1)).await.unwrap();
    }
    // As after a fail-over to a server that did not have the last commits.
    server.sql(&format!("update {schema}.writers set last_group = last_group - 2"));
    let error = store.append(contract::events(contract::run(1), Seq(4), 1)).await.unwrap_err();
    assert!(super::told(&error).contains("was acknowledged, and the database knows 2"), "{error}");
    assert!(failed.recv_timeout(crate::support::LONG).is_ok());
    drop(store);
    assert_eq!(open(server, &schema).head(&contract::run(1)).await.unwrap(), Seq(4));
}
