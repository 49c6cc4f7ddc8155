//! How long an append on one service takes to reach a reader on another one, beside a bare notification.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::poll_fn;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::store::{Append, EventBatch, EventStore, Postgres, PostgresStore};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, NoTls};
use uuid::Uuid;

use crate::appends::{connect, text};
use crate::numbers::{ms, quantile};
use crate::{Bench, row};

/// Between two appends: each is alone on its way.
const PAUSE: Duration = Duration::from_millis(10);

pub fn wakes(bench: &Bench) {
    let runtime = Runtime::new().unwrap();
    let rounds = bench.count(4, 2);
    let each = bench.count(150, 40);
    let url = bench.url();
    let open = || {
        let options = Postgres { alone: false, ..Postgres::new(url.clone()) };
        Arc::new(PostgresStore::open(&options, None, |error| panic!("{error}")).unwrap())
    };
    let (writer, reader) = (open(), open());
    let (mut whole, mut after, mut bare, mut commits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (from_call, from_answer) in runtime.block_on(appended(&writer, &reader, each)) {
            whole.push(from_call);
            after.push(from_answer);
        }
        for (notified, committed) in runtime.block_on(notified(bench, each)) {
            bare.push(notified);
            commits.push(committed);
        }
    }
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let at = |values: &[f64]| quantile(values, part);
        row(
            &format!("append called to event read elsewhere, {name}"),
            "ms",
            "insert, then NOTIFY heard, barely",
            at(&whole),
            at(&commits),
        );
        row(
            &format!("append acknowledged to event read elsewhere, {name}"),
            "ms",
            "NOTIFY heard, barely",
            at(&after),
            at(&bare),
        );
    }
}

/// For each append, milliseconds from its call and from its answer until the other store gave the event.
async fn appended(writer: &Arc<PostgresStore>, reader: &Arc<PostgresStore>, each: usize) -> Vec<(f64, f64)> {
    let run = RunId(Uuid::now_v7());
    let mut times = Vec::new();
    let mut heads = reader.watch(&run);
    for n in 0..each as u64 {
        tokio::time::sleep(PAUSE).await;
        let batch = EventBatch { first: Seq(n + 1), count: 1, ndjson: text(400) };
        let append = Append {
            run,
            expected_head: Seq(n),
            events: vec![batch],
            index: Vec::new(),
            require_absent: None,
            for_others: Default::default(),
        };
        let other = reader.clone();
        let called = Instant::now();
        let read = async {
            loop {
                heads.wait_for(|head| head.0 > n).await.unwrap();
                if !other.read(&run, Seq(n), 1 << 20).await.unwrap().is_empty() {
                    return Instant::now();
                }
            }
        };
        let answered = async {
            writer.append(append).await.unwrap();
            Instant::now()
        };
        let (read, answered) = futures_util::future::join(read, answered).await;
        times.push((ms(read - called), ms(read.saturating_duration_since(answered))));
    }
    times
}

/// The same barely: milliseconds of a notification, and of an insert, its commit and a notification after it.
async fn notified(bench: &Bench, each: usize) -> Vec<(f64, f64)> {
    let client = connect(bench).await;
    client.batch_execute("create table if not exists told (n bigserial, bytes bytea)").await.unwrap();
    let url = bench.server.url("public");
    let (listener, mut connection) = tokio_postgres::connect(url.split('?').next().unwrap(), NoTls).await.unwrap();
    let (heard, mut hears) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(_) = message {
                let _ = heard.send(Instant::now());
            }
        }
    });
    listener.batch_execute("listen told").await.unwrap();
    let insert = client.prepare("insert into told (bytes) values ($1)").await.unwrap();
    let notify = client.prepare("select pg_notify('told', 'x')").await.unwrap();
    let bytes = text(400);
    let mut times = Vec::new();
    for _ in 0..each {
        tokio::time::sleep(PAUSE).await;
        let began = Instant::now();
        client.execute(&insert, &[&&bytes[..]]).await.unwrap();
        let committed = Instant::now();
        client.execute(&notify, &[]).await.unwrap();
        let heard = hears.recv().await.unwrap();
        times.push((ms(heard - committed), ms(heard - began)));
    }
    times
}
