//! Two processes on one database: what one appends wakes the readers of the other, also when notifications are lost.

use bytes::Bytes;
use skill_runner::domain::ids::Seq;
use skill_runner::store::{Append, Error, EventStore, IndexChange, IndexKey, Postgres, contract};

use super::{open_with, options, until};
use crate::support::postgres::{self, Proxy, When, fresh};

#[tokio::test(flavor = "multi_thread")]
async fn an_append_of_one_process_wakes_the_readers_of_another() {
    if !postgres::installed("an append of one process wakes the readers of another by PostgreSQL") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let shared = Postgres { alone: false, ..options(server, &schema) };
    let (one, two) = (open_with(&shared), open_with(&shared));
    let run = contract::run(1);
    let mut watch = two.watch(&run);
    for head in 0..50 {
        assert_eq!(one.append(contract::events(run, Seq(head), 1)).await.unwrap(), Seq(head + 1));
        while *watch.borrow_and_update() <= Seq(head) {
            watch.changed().await.unwrap();
        }
        assert_eq!(contract::holds_whole_log(&two, run).await.unwrap(), Seq(head + 1));
    }
    // Whoever begins to watch a log that another process wrote is told of its head.
    one.append(contract::events(contract::run(2), Seq(0), 7)).await.unwrap();
    let mut late = two.watch(&contract::run(2));
    while *late.borrow_and_update() < Seq(7) {
        late.changed().await.unwrap();
    }
    // A log that another process deletes ends its tails here.
    one.delete_events(&run).await.unwrap();
    while watch.changed().await.is_ok() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_notification_costs_time_only() {
    if !postgres::installed("a lost notification of PostgreSQL costs time only") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let shared = Postgres { alone: false, ..options(server, &schema) };
    let one = open_with(&shared);
    // No notification gets through to the second: it can neither listen nor connect again for that.
    let proxy = Proxy::to(server.address(), |bytes| {
        if bytes.windows(7).any(|window| window == b"listen ") { When::Before } else { When::Pass }
    });
    let deaf = open_with(&Postgres { url: server.url_at(proxy.address, &schema), ..shared });
    one.append(contract::events(contract::run(1), Seq(0), 5)).await.unwrap();
    until("reads need no notification", async || deaf.head(&contract::run(1)).await.is_ok_and(|head| head == Seq(5)))
        .await;
    // It looks for itself, also what is appended long after it began to watch.
    let mut watch = deaf.watch(&contract::run(1));
    for head in [5, 6] {
        while *watch.borrow_and_update() < Seq(head) {
            watch.changed().await.unwrap();
        }
        if head == 5 {
            one.append(contract::events(contract::run(1), Seq(5), 1)).await.unwrap();
        }
    }
    assert!(proxy.cuts.load(std::sync::atomic::Ordering::Relaxed) > 0, "it could not listen");
    drop(deaf);
    let hears = open_with(&Postgres { alone: false, ..options(server, &schema) });
    let mut watch = hears.watch(&contract::run(1));
    while *watch.borrow_and_update() < Seq(6) {
        watch.changed().await.unwrap();
    }
    // All its connections are lost, and something is appended before it listens again.
    for head in 6..15 {
        server.sql(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'skill-runner listener'",
        );
        one.append(contract::events(contract::run(1), Seq(head), 1)).await.unwrap();
        while *watch.borrow_and_update() <= Seq(head) {
            watch.changed().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_race_for_a_run_or_a_key_never_both_win() {
    if !postgres::installed("processes that race on PostgreSQL never both win") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let shared = Postgres { alone: false, ..options(server, &schema) };
    let stores: Vec<_> = (0..3).map(|_| open_with(&shared)).collect();
    for round in 0..40_u64 {
        // All append to one log at the same head.
        let run = contract::run(1);
        let racing = stores.iter().map(|store| store.append(contract::events(run, Seq(round * 2), 2)));
        let results = futures_util::future::join_all(racing).await;
        let won = results.iter().filter(|result| matches!(result, Ok(head) if *head == Seq(round * 2 + 2))).count();
        let lost = results.iter().filter(|result| matches!(result, Err(Error::Conflict { .. }))).count();
        assert_eq!((won, lost), (1, 2), "{results:?}");
        // All claim one key for runs of their own.
        let key = IndexKey::Idempotency([u8::try_from(round).unwrap(); 32]);
        let racing = stores.iter().zip(0..).map(|(store, n)| {
            let mine = contract::run(1000 + u128::from(round) * 10 + n);
            let index = vec![IndexChange::Put(key, Bytes::copy_from_slice(mine.as_bytes()))];
            store.append(Append { index, require_absent: Some(key), ..contract::events(mine, Seq(0), 1) })
        });
        let results = futures_util::future::join_all(racing).await;
        let won = results.iter().filter(|result| result.is_ok()).count();
        let taken = results.iter().filter(|result| matches!(result, Err(Error::Taken { .. }))).count();
        assert_eq!((won, taken), (1, 2), "{results:?}");
    }
    assert_eq!(contract::holds_whole_log(&stores[0], contract::run(1)).await.unwrap(), Seq(80));
}
