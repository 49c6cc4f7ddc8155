//! One service on PostgreSQL: against the embedded store, against bare inserts, and from one process to another.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{join_all, join3, poll_fn};
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::store::{Append, EventBatch, EventStore, IndexChange, IndexKey, Postgres, PostgresStore};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use uuid::Uuid;

use crate::figure::Figure;
use crate::numbers::{median, ms, quantile};
use crate::server::{self, Server};
use crate::service::Service;
use crate::setup::{Setup, timed};

/// Appends that are under way at once, and inserts in one transaction.
const AT_ONCE: usize = 64;

pub fn postgres(setup: &Setup<'_>) -> Vec<Figure> {
    if !server::installed("the benchmark of PostgreSQL") {
        return Vec::new();
    }
    let server = Server::start(&["shared_buffers = 256MB", "max_wal_size = 4GB"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut figures = runs(setup, &server);
    figures.extend(lines(setup, &server));
    for shape in [
        Shape { what: "appends of 1 kB of events", events: 1_000, row: 0, rounds: setup.count(200, 60) },
        Shape { what: "appends of 1 kB and a row of 1.5 kB", events: 1_000, row: 1_500, rounds: setup.count(200, 60) },
        Shape { what: "appends of 100 kB of events", events: 100_000, row: 1_500, rounds: setup.count(12, 4) },
    ] {
        figures.push(shape.measure(&runtime, &server));
    }
    figures.extend(runtime.block_on(across(setup, &server)));
    figures
}

/// A service on the embedded store, and one on the database.
fn both(setup: &Setup<'_>, server: &Server, measure: impl Fn(&Service) -> Vec<f64>) -> [Vec<f64>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    // Whatever drifts in one direction meets both alike.
    for (round, on) in [0, 1, 1, 0].into_iter().enumerate() {
        let folder = setup.folder.join(format!("round-{}-{round}", server::fresh()));
        let setup = Setup::new(setup.program, folder, setup.quick);
        let url = server.url(&server::fresh());
        let settings: &[(&str, &str)] = if on == 0 { &[] } else { &[("store", &url)] };
        let service = setup.serve(settings);
        drop(service.run(&mut service.client(), "noop"));
        times[on].extend(measure(&service));
    }
    times
}

fn runs(setup: &Setup<'_>, server: &Server) -> Vec<Figure> {
    let rounds = setup.count(150, 30);
    let [sled, database] = both(setup, server, |service| {
        let mut client = service.client();
        timed(rounds, || drop(service.run(&mut client, "noop")))
    });
    let [sled_many, many] = both(setup, server, |service| {
        let each = rounds / 10 + 1;
        let seconds = crate::setup::at_once(16, || {
            let mut client = service.client();
            (0..each).for_each(|_| drop(service.run(&mut client, "noop")));
        });
        vec![(16 * each) as f64 / seconds]
    });
    vec![
        Figure::new("trivial run, one after the other", "ms", median(&database)).limit("on sled", median(&sled)),
        Figure::new("trivial runs, 16 at once", "runs/s", median(&many)).limit("on sled", median(&sled_many)),
    ]
}

fn lines(setup: &Setup<'_>, server: &Server) -> Vec<Figure> {
    let [sled, database] = both(setup, server, |service| {
        let seconds = timed(1, || drop(service.run(&mut service.client(), "progress")));
        seconds.into_iter().map(|ms| Setup::LINES as f64 / ms * 1e3).collect()
    });
    vec![Figure::new("100 000 lines as an event each", "lines/s", median(&database)).limit("on sled", median(&sled))]
}

/// What is appended, and how often.
struct Shape {
    what: &'static str,
    events: usize,
    row: usize,
    rounds: usize,
}

impl Shape {
    fn measure(&self, runtime: &Runtime, server: &Server) -> Figure {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for on in [0, 1, 1, 0] {
            if on == 0 {
                bare.push(runtime.block_on(self.inserts(server)));
            } else {
                ours.push(runtime.block_on(self.appends(server)));
            }
        }
        Figure::new(self.what, "/s", median(&ours))
            .limit("bare pipelined inserts", median(&bare))
            .at_least(0.5 * median(&bare))
    }

    fn rate(&self, began: Instant) -> f64 {
        (AT_ONCE * self.rounds) as f64 / began.elapsed().as_secs_f64()
    }

    /// Of so many runs at once, each after the one before it.
    async fn appends(&self, server: &Server) -> f64 {
        let url = server.url(&server::fresh());
        let store = Arc::new(PostgresStore::open(&Postgres::new(url), None, |error| panic!("{error}")).unwrap());
        let event = Bytes::from(format!("{}\n", "x".repeat(self.events - 1)));
        let row = Bytes::from("y".repeat(self.row));
        let began = Instant::now();
        let appending = (0..AT_ONCE).map(|_| {
            let (store, event, row, run) = (store.clone(), event.clone(), row.clone(), RunId(Uuid::now_v7()));
            let rounds = self.rounds as u64;
            tokio::spawn(async move {
                for head in (0..rounds).map(Seq) {
                    let events = vec![EventBatch { first: Seq(head.0 + 1), count: 1, ndjson: event.clone() }];
                    let put = |row| vec![IndexChange::Put(IndexKey::Run(run), row)];
                    let index = if row.is_empty() { Vec::new() } else { put(row.clone()) };
                    let append = Append { run, expected_head: head, events, index, require_absent: None };
                    store.append(append).await.unwrap();
                }
            })
        });
        for done in join_all(appending).await {
            done.unwrap();
        }
        self.rate(began)
    }

    /// The same bytes into two tables with the same keys, a transaction for as many; nothing is checked, and nothing waits for
    /// anything but the transaction before it.
    async fn inserts(&self, server: &Server) -> f64 {
        let client = connected(server, None).await;
        let name = server::fresh();
        let make = "create table NAME (run uuid, last bigint, count integer, ndjson bytea, primary key (run, last));
            alter table NAME alter column ndjson set storage external;
            create table NAME_rows (run uuid primary key, state bytea);
            alter table NAME_rows alter column state set storage external";
        client.batch_execute(&make.replace("NAME", &name)).await.unwrap();
        let insert = format!("insert into {name} values ($1, $2, 1, $3)");
        let row =
            format!("insert into {name}_rows values ($1, $2) on conflict (run) do update set state = excluded.state");
        let (insert, put) = (client.prepare(&insert).await.unwrap(), client.prepare(&row).await.unwrap());
        let (event, row) = (vec![b'x'; self.events], vec![b'y'; self.row]);
        let runs: Vec<Uuid> = (0..AT_ONCE).map(|_| Uuid::now_v7()).collect();
        let began = Instant::now();
        for last in 1..=self.rounds as i64 {
            let events = runs.iter().map(|run| {
                let (client, insert, event) = (&client, &insert, &event);
                async move { client.execute(insert, &[run, &last, event]).await.map(drop) }
            });
            let rows = runs.iter().filter(|_| self.row > 0).map(|run| {
                let (client, put, row) = (&client, &put, &row);
                async move { client.execute(put, &[run, row]).await.map(drop) }
            });
            let (begun, inserted, put) = join3(client.batch_execute("begin"), join_all(events), join_all(rows)).await;
            begun.unwrap();
            inserted.into_iter().chain(put).for_each(|done| done.unwrap());
            client.batch_execute("commit").await.unwrap();
        }
        self.rate(began)
    }
}

/// A connection; what it is notified of is sent on.
async fn connected(server: &Server, heard: Option<mpsc::UnboundedSender<String>>) -> Client {
    let url = server.url("x").replace("?schema=x", "");
    let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let (AsyncMessage::Notification(said), Some(heard)) = (message, &heard) {
                let _ = heard.send(said.payload().to_owned());
            }
        }
    });
    client
}

/// From an append of one process to a reader of another.
async fn across(setup: &Setup<'_>, server: &Server) -> Vec<Figure> {
    let rounds = setup.count(1000, 200);
    let options = Postgres { alone: false, ..Postgres::new(server.url(&server::fresh())) };
    let open = || PostgresStore::open(&options, None, |error| panic!("{error}")).unwrap();
    let (one, two) = (open(), open());
    let run = RunId(Uuid::now_v7());
    let mut watch = two.watch(&run);
    let (mut called, mut acknowledged) = (Vec::new(), Vec::new());
    for head in (0..rounds as u64).map(Seq) {
        let ndjson = Bytes::from(format!("{}\n", "x".repeat(400)));
        let events = vec![EventBatch { first: Seq(head.0 + 1), count: 1, ndjson }];
        let began = Instant::now();
        let append = one.append(Append { run, expected_head: head, events, index: Vec::new(), require_absent: None });
        let acked = tokio::spawn(async move {
            append.await.unwrap();
            Instant::now()
        });
        while *watch.borrow_and_update() <= head {
            watch.changed().await.unwrap();
        }
        assert_eq!(two.read(&run, head, 4096).await.unwrap().len(), 1);
        let read = Instant::now();
        called.push(ms(read - began));
        acknowledged.push(ms(read.saturating_duration_since(acked.await.unwrap())));
    }
    let (heard, mut said) = mpsc::unbounded_channel();
    let (speaker, listener) = (connected(server, None).await, connected(server, Some(heard)).await);
    listener.batch_execute("listen bare").await.unwrap();
    let notify = speaker.prepare("select pg_notify('bare', $1)").await.unwrap();
    let mut bare = Vec::new();
    for round in 0..rounds {
        let began = Instant::now();
        speaker.execute(&notify, &[&round.to_string()]).await.unwrap();
        said.recv().await.unwrap();
        bare.push(ms(began.elapsed()));
    }
    let figure = |what: &str, times: &[f64], part: f64| {
        Figure::new(format!("{what}, p{:.0}", part * 100.0), "ms", quantile(times, part))
            .limit("bare NOTIFY, sent to heard", quantile(&bare, part))
    };
    vec![
        figure("append to reader of another process", &called, 0.5),
        figure("append to reader of another process", &called, 0.99),
        figure("acknowledged to reader of another process", &acknowledged, 0.5),
        figure("acknowledged to reader of another process", &acknowledged, 0.99),
    ]
}
