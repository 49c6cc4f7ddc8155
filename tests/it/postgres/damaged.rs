//! A database that lies: rows of any size, leases without an end, a clock that is set back, answers without an end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use skill_runner::domain::fact::Stream;
use skill_runner::domain::fair_queue::Bounds;
use skill_runner::domain::ids::Seq;
use skill_runner::store::cluster_contract::{self, View};
use skill_runner::store::{
    Error, EventStore, IndexKey, NodeInfo, NodeLoad, Postgres, PostgresStore, RunFilter, contract,
};
use tokio::time::timeout;

use super::{open_with, options, told};
use crate::support::LONG;
use crate::support::postgres::{self, Proxy, When, fresh};

const FREE: Bounds = Bounds { running: 9, waiting: 9, per_engine: None, per_skill: None };
/// The usual setting.
const LEASE: Duration = Duration::from_secs(15);

fn several(schema: &str) -> Postgres {
    let own_first = Duration::from_millis(25);
    Postgres { alone: false, own_first, share: cluster_contract::share_rule(), ..options(postgres::shared(), schema) }
}

async fn joined(options: &Postgres, name: &str) -> View {
    let store = std::sync::Arc::new(open_with(options));
    let view = View { cluster: store.cluster().unwrap(), node: store.node(), store };
    let info =
        NodeInfo { node: view.node, name: name.into(), version: "1".into(), address: None, works: true, lease: LEASE };
    view.cluster.join(info).await.unwrap();
    view
}

/// How much of the memory of this process is in use at most, in MiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_row_is_damage_and_is_not_fetched() {
    if !postgres::installed("a huge row in PostgreSQL is damage") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let one = joined(&several(&schema), "one").await;
    let (run, log) = (contract::run(1), contract::run(2));
    cluster_contract::queue(&*one.store, 1).await.unwrap();
    one.store.append(contract::events(log, Seq(0), 3)).await.unwrap();
    let huge = "decode(repeat('00', 200000000), 'hex')";
    server.sql(&format!(
        "set search_path = {schema}; update runs set state = {huge} where run = '{run}'; \
         update events set ndjson = {huge} where run = '{log}'; \
         insert into raw_chunks values ('{log}', 1, 0, {huge}); \
         insert into records (kind, key, revision, value) values ('token', 'a', 1, {huge}); \
         insert into record_kinds values ('token', 1)"
    ));
    let before = peak();
    let row = one.store.index(&IndexKey::Run(run)).await.unwrap();
    assert_eq!(row.as_deref(), Some(&b""[..]), "what reads it takes it for damaged");
    let listed = one.store.runs_with(&RunFilter::default(), None, 10).await.unwrap();
    assert!(listed.iter().all(|(_, row)| row.len() < 4_000_000));
    let read = one.store.read(&log, Seq(0), 1000).await.unwrap_err();
    assert!(matches!(&read, Error::Corrupt { .. }) && told(&read).contains("200000000 bytes"), "{read:?}");
    let raw = one.store.raw(&log, Stream::Stdout, 5, 1000).await.unwrap();
    assert_eq!((raw.len(), raw[0].from, raw[0].bytes.len()), (1, 5, 1000), "a piece is cut to what is wanted");
    let records = one.cluster.records("token").await.unwrap();
    assert_eq!(records.records.iter().map(|record| record.value.len()).collect::<Vec<_>>(), [0]);
    assert_eq!(one.cluster.record("token", "a").await.unwrap().unwrap().value.len(), 0);
    assert!(peak() - before < 100, "{} MiB more", peak() - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_without_an_end_ends_and_a_live_one_goes_on() {
    if !postgres::installed("a lease without an end in PostgreSQL ends") {
        return;
    }
    for until in ["'infinity'", "'9999-01-01'", "'294276-12-31'", "clock_timestamp() + interval '1 hour'"] {
        let (server, schema) = (postgres::shared(), fresh());
        let (dead, live) = (joined(&several(&schema), "dead").await, joined(&several(&schema), "live").await);
        cluster_contract::queue(&*dead.store, 1).await.unwrap();
        assert_eq!(dead.cluster.take(9, &FREE).await.unwrap(), [contract::run(1)]);
        server.sql(&format!("set search_path = {schema}; update nodes set lease_until = {until}, joined_at = {until}"));
        let nodes = live.cluster.nodes().await.unwrap();
        assert_eq!(nodes.len(), 2, "{until}");
        assert!(nodes.iter().all(|node| node.lease_left.unwrap() <= Duration::from_secs(300)), "{nodes:?}");
        assert_eq!(live.cluster.take_abandoned(9).await.unwrap(), [], "nobody knows yet that it is dead");
        let left =
            server.sql(&format!("select max(lease_until) <= clock_timestamp() + interval '300 s' from {schema}.nodes"));
        assert_eq!(left, "t", "{until}");
        // Whoever is there goes on as before, and the other's time passes.
        live.cluster.renew(NodeLoad::default()).await.unwrap();
        server.sql(&format!(
            "update {schema}.nodes set lease_until = lease_until - interval '300 s' where name = 'dead'"
        ));
        live.cluster.take_abandoned(9).await.unwrap();
        assert_eq!(live.cluster.take(9, &FREE).await.unwrap(), [contract::run(1)], "{until}");
        assert!(matches!(dead.cluster.renew(NodeLoad::default()).await, Err(Error::NotOwner)));
    }
}

/// The clock of the database was an hour ahead, and was put right.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_in_the_future_of_the_databases_clock_waits_for_nobody() {
    if !postgres::installed("runs that came in the future of PostgreSQL are started") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let (one, two) = (joined(&several(&schema), "one").await, joined(&several(&schema), "two").await);
    cluster_contract::queue(&*one.store, 1).await.unwrap();
    server.sql(&format!(
        "set search_path = {schema}; update runs set came = came + 3600000000; \
         insert into file_removals (sha256, begun_by, begun_at) values ('\\x01', '{}', now() + interval '1 hour'); \
         update file_clean_up set turn = '{}', turn_until = 'infinity', all_looked_at = 'infinity'; \
         update about set made_at = 'infinity'",
        fresh_id(),
        fresh_id()
    ));
    assert_eq!(two.cluster.take(9, &FREE).await.unwrap(), [], "it is left to the service that queued it");
    two.cluster.take_abandoned(9).await.unwrap();
    let taken = async {
        while two.cluster.take(9, &FREE).await.unwrap() != [contract::run(1)] {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, taken).await.expect("it is left to the other for a moment only");
    let begun = server.sql(&format!("select begun_at <= clock_timestamp() from {schema}.file_removals"));
    assert_eq!(begun, "t");
    let turn = two.cluster.take_turn(Duration::from_secs(3600)).await.unwrap();
    assert_eq!(turn.map(|turn| (turn.after, turn.store_age)), Some((None, Duration::ZERO)));
}

fn fresh_id() -> &'static str {
    "00000000-0000-0000-0000-00000000000a"
}

/// A column that is null where it never is, or of another type, cannot be understood. Whoever asks is told, and the tasks of the store
/// that look for themselves go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_understood_is_an_error_of_that_question_alone() {
    if !postgres::installed("rows of PostgreSQL that cannot be understood are errors") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let (one, two) = (joined(&several(&schema), "one").await, joined(&several(&schema), "two").await);
    let run = contract::run(1);
    one.store.append(contract::events(run, Seq(0), 3)).await.unwrap();
    let sql = |sql: &str| server.sql(&format!("set search_path = {schema}; {sql}"));
    sql(&format!(
        "alter table runs alter head drop not null; update runs set head = null where run = '{run}'; \
         alter table events alter ndjson type text using encode(ndjson, 'hex'); \
         alter table nodes alter works type text using works::text"
    ));
    // Each of its tasks looks the head up: for who follows, by itself every two seconds, and when it hears of an append.
    let mut head = two.store.watch(&run);
    let looked = sql("select pg_sleep(2.5)");
    assert_eq!(looked, "");
    sql(&format!("notify {schema}_heads, '{}=3'", run.0.simple()));
    let refused = |error: Error| assert!(matches!(&error, Error::Engine { .. }), "{error:?}");
    refused(two.store.head(&run).await.unwrap_err());
    refused(two.store.read(&run, Seq(0), 1000).await.unwrap_err());
    refused(two.cluster.nodes().await.map(drop).unwrap_err());
    sql(&format!("update runs set head = 3 where run = '{run}'"));
    timeout(LONG, head.wait_for(|head| *head == Seq(3))).await.expect("it looks again").unwrap();
}

/// A server that lets everybody in, and then says these bytes for ever.
fn lying(first: Vec<u8>, forever: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://u:p@{}/d?sslmode=disable", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (first, forever) = (first.clone(), forever.clone());
            std::thread::spawn(move || serve(stream.unwrap(), &first, &forever));
        }
    });
    url
}

fn serve(mut stream: TcpStream, first: &[u8], forever: &[u8]) -> Option<()> {
    // The startup message, whatever it says.
    let mut asked = [0; 4096];
    let _ = stream.read(&mut asked).ok()?;
    stream.write_all(first).ok()?;
    while !forever.is_empty() {
        stream.write_all(forever).ok()?;
    }
    while stream.read(&mut asked).ok()? > 0 {}
    Some(())
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &u32::try_from(body.len() + 4).unwrap().to_be_bytes(), body].concat()
}

#[test]
fn a_server_that_sends_without_end_or_announces_too_much_is_refused_in_little_memory() {
    let authenticated = message(b'R', &0_u32.to_be_bytes());
    let notice = message(b'N', &[b"SX\0".as_slice(), &vec![b'M'; 60_000], b"\0\0"].concat()).repeat(16);
    let cases = [
        (vec![b'D', 0x7f, 0xff, 0xff, 0xff], Vec::new(), "a message of 2147483647 bytes"),
        (authenticated, notice, "an answer of more than"),
    ];
    for (first, forever, reason) in cases {
        let before = peak();
        let options = Postgres { lock_patience: Duration::ZERO, ..Postgres::new(lying(first, forever)) };
        let said = told(&PostgresStore::open(&options, None, |_| {}).map(drop).unwrap_err());
        assert!(said.contains(reason), "{said}");
        assert!(peak() - before < 1500, "{} MiB more", peak() - before);
    }
}

/// A server, or something before it, that takes each connection and cuts it at the same word.
fn cut_at(word: &'static [u8]) -> Proxy {
    Proxy::to(postgres::shared().address(), move |bytes| {
        let said = bytes.windows(word.len()).any(|window| window == word);
        if said { When::Before } else { When::Pass }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_come_back_and_are_cut_each_time_are_not_tried_for_ever() {
    if !postgres::installed("connections to PostgreSQL that are cut each time are given up") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    drop(open_with(&options(server, &schema)));
    let patience = Duration::from_secs(1);
    let open = |url: String| {
        let (fatal, failed) = std::sync::mpsc::channel();
        let options = Postgres { write_patience: patience, read_patience: patience, ..Postgres::new(url) };
        let store = PostgresStore::open(&options, None, move |error| drop(fatal.send(error.clone()))).unwrap();
        (store, failed)
    };
    let append = |store: &PostgresStore| timeout(LONG, store.append(contract::events(contract::run(1), Seq(0), 1)));
    // Readers: the query of a page of events.
    let proxy = cut_at(b"sum(octet_length(ndjson))");
    let (store, _failed) = open(server.url_at(proxy.address, &schema));
    let read = timeout(LONG, store.read(&contract::run(1), Seq(0), 1000)).await.expect("it ends");
    assert!(matches!(read, Err(Error::Unreachable { .. })), "{read:?}");
    drop(store);
    // The writer: before its transaction, and while it commits.
    for word in [b"begin\0".as_slice(), b"commit\0"] {
        let proxy = cut_at(word);
        let (store, failed) = open(server.url_at(proxy.address, &schema));
        let written = append(&store).await.expect("it ends");
        assert!(matches!(written, Err(Error::Unavailable { .. })), "{written:?}");
        assert!(matches!(failed.recv_timeout(LONG).unwrap(), Error::Unavailable { .. }));
    }
    // A table that takes the count of appends and does not keep it.
    server.sql(&format!(
        "set search_path = {schema}; create function lie() returns trigger language plpgsql as $$ begin \
         if new.last_group <> old.last_group then return null; end if; return new; end $$; \
         create trigger lies before update on writers for each row execute function lie()"
    ));
    let (store, failed) = open(server.url(&schema));
    let written = append(&store).await.expect("it ends");
    assert!(format!("{written:?}").contains("does not count"), "{written:?}");
    assert!(matches!(failed.recv_timeout(LONG).unwrap(), Error::Unavailable { .. }));
    // By itself: a store that has failed answers no more.
    assert_eq!(server.sql(&format!("select count(*) from {schema}.runs")), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_leaves_time_for_the_next_one() {
    if !postgres::installed("the next server of PostgreSQL is tried") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let url = server.url_at(server.address(), &schema).replace("@127", &format!("@{silent},127"));
    let store = PostgresStore::open(&Postgres::new(url), None, |error| panic!("{error:?}")).unwrap();
    store.append(contract::events(contract::run(1), Seq(0), 3)).await.unwrap();
    assert_eq!(contract::holds_whole_log(&store, contract::run(1)).await.unwrap(), Seq(3));
}
