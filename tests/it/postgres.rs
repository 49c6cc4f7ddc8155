//! The store on a real PostgreSQL server: it keeps the contract, and survives restarts and cut connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use skill_runner::domain::ids::Seq;
use skill_runner::store::{
    Append, Error, EventStore, IndexChange, IndexKey, Postgres, PostgresStore, RunFilter, contract,
};

use crate::support::postgres::{self, Server, fresh};

mod cluster;
mod damaged;
mod lost;
mod migrate;
mod refused;
mod script;
mod service;
mod shared;

fn options(server: &Server, schema: &str) -> Postgres {
    Postgres::new(server.url(schema))
}

fn open(server: &Server, schema: &str) -> PostgresStore {
    open_with(&options(server, schema))
}

fn open_with(options: &Postgres) -> PostgresStore {
    PostgresStore::open(options, None, |error| panic!("{error:?}")).unwrap()
}

fn told(error: &Error) -> String {
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_keeps_the_contract() {
    if !postgres::installed("the PostgreSQL store keeps the contract") {
        return;
    }
    let server = postgres::shared();
    contract::check(|| Arc::new(open(server, &fresh()))).await.unwrap();
    // The same where other processes may write: then appends are notified, and heads looked up.
    contract::check(|| Arc::new(open_with(&Postgres { alone: false, ..options(server, &fresh()) }))).await.unwrap();
}

#[tokio::test]
async fn a_store_opened_again_holds_everything() {
    if !postgres::installed("a PostgreSQL store opened again holds everything") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    contract::check_reopen(|| Arc::new(open(server, &schema))).await.unwrap();
    // A watch of a store that was opened again begins at the head.
    let store = open(server, &schema);
    assert_eq!(*store.watch(&contract::run(1)).borrow(), store.head(&contract::run(1)).await.unwrap());
}

#[tokio::test]
async fn labels_and_times_find_runs() {
    if !postgres::installed("labels and times find runs in a PostgreSQL store") {
        return;
    }
    let store = open(postgres::shared(), &fresh());
    crate::store::a_filter_finds_runs_by_their_labels_and_their_time(&store).await;
    // Texts that the server cannot hold as text are found by nobody, and stop nobody.
    let row = Bytes::from_static(
        br#"{"state":{"skill":{"id":"a\u0000b"},"engine":"script","status":"queued","labels":{"x\u0000":"\u0000"}}}"#,
    );
    let index = vec![IndexChange::Put(IndexKey::Run(contract::run(99)), row.clone())];
    store.append(Append { index, ..contract::events(contract::run(99), Seq(0), 0) }).await.unwrap();
    let by_label = RunFilter { labels: vec![("x\0".into(), "\0".into())], ..RunFilter::default() };
    assert_eq!(store.runs_with(&by_label, None, 9).await.unwrap(), [(contract::run(99), row)]);
    let by_skill = RunFilter { skill_id: Some("a\0b".into()), ..RunFilter::default() };
    assert_eq!(store.runs_with(&by_skill, None, 9).await.unwrap(), []);
}

/// Finds are made by indexes: the server is asked for its plans on a table with many runs.
#[tokio::test]
async fn lists_and_reads_use_indexes() {
    if !postgres::installed("lists and reads of a PostgreSQL store use indexes") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let _store = open(server, &schema);
    server.sql(&format!(
        "insert into {schema}.runs (run, head, open, state, status, skill, engine, temporary, labels, created_at)
         select md5(n::text)::uuid, 0, n % 1000 = 0, 'x', case when n % 100 = 0 then 'failed' else 'succeeded' end,
            's' || n % 50, 'script', false, array[decode(md5((n % 200)::text), 'hex')], n from generate_series(1, 20000) n;
         insert into {schema}.events select md5((n % 100)::text)::uuid, n, 1, 'x' from generate_series(1, 20000) n;
         analyze {schema}.runs; analyze {schema}.events"
    ));
    for condition in [
        "status = 'failed' order by run desc limit 20",
        "skill = 's7' order by run desc limit 20",
        "labels @> array[decode(md5('7'), 'hex')] order by run desc limit 20",
        "created_at >= 19990 order by run desc limit 20",
        "open order by run",
        "true order by run desc limit 20",
    ] {
        let open = if condition.starts_with("open") { "" } else { "state is not null and " };
        let plan = server.sql(&format!("explain select run from {schema}.runs where {open}{condition}"));
        assert!(plan.contains("Index") && !plan.contains("Seq Scan"), "{condition}: {plan}");
    }
    let plan = server.sql(&format!(
        "explain select last from {schema}.events where run = md5('7')::uuid and last > 3 order by last limit 256"
    ));
    assert!(plan.contains("Index") && !plan.contains("Seq Scan"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_runs_leave_the_hot_table_and_its_room_is_used_again() {
    if !postgres::installed("sealed runs leave the hot table of a PostgreSQL store") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let store = open(server, &schema);
    let fill = async |from: u128| {
        for n in from..from + 40 {
            store.append(contract::events(contract::run(n), Seq(0), 500)).await.unwrap();
        }
        for n in from..from + 40 {
            store.delete_events(&contract::run(n)).await.unwrap();
        }
        assert_eq!(server.sql(&format!("select count(*) from {schema}.events")), "0");
        // Rows that a transaction of another test may still see would stay.
        let now = server.sql("select pg_current_xact_id()::xid");
        let older = format!(
            "select count(*) from pg_stat_activity where pid <> pg_backend_pid() \
             and (age(backend_xmin) > age('{now}'::xid) or age(backend_xid) > age('{now}'::xid))"
        );
        until("older transactions are over", async || server.sql(&older) == "0").await;
        server.sql(&format!("vacuum {schema}.events"));
        server.sql(&format!("select pg_total_relation_size('{schema}.events')")).parse::<u64>().unwrap()
    };
    fill(1000).await;
    let once = fill(2000).await;
    for round in 3..8 {
        assert!(fill(round * 1000).await <= once, "the table grows though nothing is in it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_made_once_by_any_number_of_processes_at_once() {
    if !postgres::installed("tables are made once by any number of processes at once") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let shared = Postgres { alone: false, ..options(server, &schema) };
    let opened = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                open_with(&shared);
                opened.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(opened.load(Ordering::Relaxed), 8);
    assert_eq!(server.sql(&format!("select version, tables from {schema}.about")), "2|6");
}

/// Waits until something is so that no event tells of.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::support::LONG, waited).await.unwrap_or_else(|_| panic!("{what}"));
}
