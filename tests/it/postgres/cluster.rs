//! Several services on one database: they agree on who works on what, also when answers are lost.

use std::sync::Arc;

use skill_runner::domain::fair_queue::Bounds;
use skill_runner::store::cluster_contract::{self, Services, View};
use skill_runner::store::{Error, NodeInfo, Postgres, PostgresStore, contract};
use skill_runner::store::{output_contract, owner_contract, removals_contract};

use super::{open_with, options, told};
use crate::support::LONG;
use crate::support::postgres::{self, fresh};

const FREE: Bounds = Bounds { running: 9, waiting: 9, per_engine: None, per_skill: None };

/// Every service may take every run at once.
fn several(schema: &str) -> Postgres {
    let own_first = std::time::Duration::ZERO;
    Postgres { alone: false, own_first, share: cluster_contract::share_rule(), ..options(postgres::shared(), schema) }
}

fn view(options: &Postgres) -> View {
    let store = Arc::new(open_with(options));
    View { cluster: store.cluster().unwrap(), node: store.node(), store }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_services_keep_the_contract() {
    if !postgres::installed("several services on PostgreSQL keep the contract") {
        return;
    }
    let make = || {
        let schema = fresh();
        let options = several(&schema);
        // Nobody waits: what is left of each lease gets less.
        let pass = Box::new(move |time: std::time::Duration| {
            let seconds = time.as_secs();
            let sql = format!(
                "set search_path = {schema}; update nodes set lease_until = lease_until - interval '{seconds} s'; \
                 update file_removals set begun_at = begun_at - interval '{seconds} s'; \
                 update file_clean_up set turn_until = turn_until - interval '{seconds} s'"
            );
            postgres::shared().sql(&sql);
            Box::pin(std::future::ready(())) as _
        });
        Services { views: (0..4).map(|_| view(&options)).collect(), pass }
    };
    cluster_contract::check(&make).await.unwrap();
    output_contract::check(&make).await.unwrap();
    owner_contract::check(&make).await.unwrap();
    removals_contract::check(&make).await.unwrap();
}

/// A service has the files of the runs that it brings into the queue: others leave those to it for a moment, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_first_left_to_the_service_that_queued_it() {
    if !postgres::installed("a run in PostgreSQL is first left to the service that queued it") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    // So long that only the test can let it pass.
    let options = Postgres { own_first: LONG, ..several(&schema) };
    let (one, two, idle) = (view(&options), view(&options), view(&options));
    for (view, works) in [(&one, true), (&two, true), (&idle, false)] {
        let (name, version) = ("node".to_owned(), "1".to_owned());
        view.cluster
            .join(NodeInfo { node: view.node, name, version, address: None, works, lease: LONG })
            .await
            .unwrap();
    }
    let queue = async |view: &View, n: u128| cluster_contract::queue(&*view.store, n).await.unwrap();
    let take = async |view: &View| view.cluster.take(9, &FREE).await.unwrap();
    queue(&one, 1).await;
    queue(&two, 2).await;
    assert_eq!(take(&two).await, [contract::run(2)]);
    assert_eq!(take(&one).await, [contract::run(1)]);
    // Whoever starts no runs leaves them to everybody at once.
    queue(&idle, 3).await;
    assert_eq!(take(&two).await, [contract::run(3)]);
    queue(&one, 4).await;
    assert_eq!(take(&two).await, []);
    let earlier = format!("came = came - {}", LONG.as_micros());
    server.sql(&format!("update {schema}.runs set {earlier} where run = '{}'", contract::run(4)));
    assert_eq!(take(&two).await, [contract::run(4)]);
}

/// The database has given the service a run, and the service does not know it.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_taking_was_not_answered_is_given_again() {
    if !postgres::installed("a run taken from PostgreSQL without an answer is given again") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let one = view(&several(&schema));
    let info =
        NodeInfo { node: one.node, name: "one".into(), version: "1".into(), address: None, works: true, lease: LONG };
    one.cluster.join(info).await.unwrap();
    cluster_contract::queue(&*one.store, 1).await.unwrap();
    let taken = server.sql(&format!(
        "set search_path = {schema}; select o_epoch from nodes, take_1(incarnation, '{{}}', 1, null, null, 8)"
    ));
    assert_eq!((taken.as_str(), one.cluster.owns(contract::run(1))), ("1", false));
    assert_eq!(one.cluster.take(1, &FREE).await.unwrap(), [contract::run(1)]);
    assert!(one.cluster.owns(contract::run(1)));
    assert_eq!(one.cluster.take(1, &FREE).await.unwrap(), []);
}

#[test]
fn several_services_and_one_alone_exclude_each_other() {
    if !postgres::installed("several services on PostgreSQL and one alone exclude each other") {
        return;
    }
    let schema = fresh();
    let alone = Postgres { lock_patience: std::time::Duration::ZERO, ..options(postgres::shared(), &schema) };
    let refused = |options: &Postgres| {
        let error = PostgresStore::open(options, None, |_| {}).map(drop).unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{}", told(&error));
    };
    let (one, two) = (open_with(&several(&schema)), open_with(&several(&schema)));
    refused(&alone);
    drop((one, two));
    let lone = open_with(&alone);
    assert!(lone.cluster().is_none());
    refused(&Postgres { lock_patience: std::time::Duration::ZERO, ..several(&schema) });
    drop(lone);
    // Each of several has a folder of its own, and its id is the service's.
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let open = |at: usize| PostgresStore::open(&several(&schema), Some(folders[at].path()), |_| {}).unwrap();
    let nodes = [open(0), open(1)].map(|store| store.node());
    assert_eq!(nodes, [open(0), open(1)].map(|store| store.node()));
    assert_ne!(nodes[0], nodes[1]);
}

/// Tables as version 1 of the program left them: what waits is in the queue, in its order.
#[tokio::test(flavor = "multi_thread")]
async fn tables_of_the_first_version_are_brought_up_to_date() {
    if !postgres::installed("tables of the first version of PostgreSQL are brought up to date") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let first = include_str!("../../../src/store/postgres/schema_1.sql");
    let rows: Vec<String> = [2, 1]
        .iter()
        .map(|n| {
            let row = String::from_utf8(cluster_contract::queued_row(*n)).unwrap();
            format!(
                "insert into runs (run, head, open, state, status, created_at) values ('{}', 0, true, \
                 convert_to($row${row}$row$, 'UTF8'), 'queued', {});",
                contract::run(*n),
                10 - n
            )
        })
        .collect();
    server.sql(&format!(
        "create schema {schema}; set search_path = {schema}; {first} create table about (version integer not null, \
         folder uuid, made_at timestamptz default now()); insert into about (version) values (1); {}",
        rows.concat()
    ));
    let one = view(&several(&schema));
    assert_eq!(server.sql(&format!("select version, tables from {schema}.about")), "2|6");
    let info = NodeInfo {
        node: one.node,
        name: String::new(),
        version: String::new(),
        address: None,
        works: true,
        lease: LONG,
    };
    one.cluster.join(info).await.unwrap();
    assert_eq!(one.cluster.take(9, &FREE).await.unwrap(), [contract::run(2), contract::run(1)]);
}

/// The change was committed, and its answer was lost: it is sent again.
#[test]
fn a_change_of_a_record_that_was_not_answered_is_made_once() {
    if !postgres::installed("a change of a record in PostgreSQL without an answer is made once") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let _one = open_with(&several(&schema));
    let change = |id: &str, expected: i64, value: &str| {
        server.sql(&format!(
            "set search_path = {schema}; select o_done from change_record_1('{id}', 'k', 'x', {expected}, '{value}', '{{}}')"
        ))
    };
    let (first, second) = ("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002");
    assert_eq!(change(first, -1, "a"), "1");
    assert_eq!(change(first, -1, "a"), "1");
    assert_eq!(change(second, 1, "b"), "2");
    // Also when somebody else has changed it since.
    assert_eq!(change(first, -1, "a"), "1");
    assert_eq!(server.sql(&format!("select revision, convert_from(value, 'UTF8') from {schema}.records")), "2|b");
}
