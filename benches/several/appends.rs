//! Appends to the store beside bare inserts of the same bytes: one connection, pipelined, a transaction per group, the same durability.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::store::owner_contract::row_at_work;
use skill_runner::store::{Append, EventBatch, EventStore, IndexChange, IndexKey, Postgres, PostgresStore};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::{Bench, compared};

/// Runs that grow at once, each by one append at a time.
const AT_ONCE: usize = 64;

/// What an append carries.
#[derive(Clone, Copy)]
struct Shape {
    batches: usize,
    batch_bytes: usize,
    /// Length of the run's row, which is at work; 0 for none.
    row_bytes: usize,
}

pub fn appends(bench: &Bench) {
    let runtime = Runtime::new().unwrap();
    let rounds = bench.count(6, 2);
    for (what, shape, each) in [
        ("events of 2 KiB", Shape { batches: 1, batch_bytes: 2048, row_bytes: 0 }, bench.count(60, 15)),
        (
            "events of 2 KiB and a row of 1.5 KiB",
            Shape { batches: 1, batch_bytes: 2048, row_bytes: 1536 },
            bench.count(60, 15),
        ),
        ("events of 96 KiB", Shape { batches: 16, batch_bytes: 6 * 1024, row_bytes: 0 }, bench.count(6, 3)),
    ] {
        let store =
            Arc::new(PostgresStore::open(&Postgres::new(bench.url()), None, |error| panic!("{error}")).unwrap());
        let bare = runtime.block_on(Bare::connect(bench));
        let total = (AT_ONCE * each) as f64;
        compared(
            &format!("appends, 64 runs at once, {what}"),
            "/s",
            "bare inserts",
            rounds,
            || total / runtime.block_on(by_store(store.clone(), shape, each)),
            || total / runtime.block_on(bare.insert(shape, each)),
        );
    }
}

/// Seconds.
async fn by_store(store: Arc<PostgresStore>, shape: Shape, each: usize) -> f64 {
    let runs: Vec<RunId> = (0..AT_ONCE).map(|_| RunId(Uuid::now_v7())).collect();
    let of = |run: &RunId| (shape.row_bytes > 0).then(|| Bytes::from(row_at_work(run.0.as_u128(), shape.row_bytes)));
    let rows: Vec<Option<Bytes>> = runs.iter().map(of).collect();
    let began = Instant::now();
    join_all(runs.into_iter().zip(rows).map(|(run, row)| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut head = Seq::START;
            for _ in 0..each {
                head = store.append(append(run, head, shape, row.clone())).await.unwrap();
            }
        })
    }))
    .await;
    began.elapsed().as_secs_f64()
}

pub fn text(length: usize) -> Bytes {
    let mut text = vec![b'x'; length];
    text[length - 1] = b'\n';
    text.into()
}

fn append(run: RunId, head: Seq, shape: Shape, row: Option<Bytes>) -> Append {
    let batch = |n: usize| EventBatch { first: Seq(head.0 + 1 + n as u64), count: 1, ndjson: text(shape.batch_bytes) };
    Append {
        run,
        expected_head: head,
        events: (0..shape.batches).map(batch).collect(),
        index: row.map(|row| IndexChange::Put(IndexKey::Run(run), row)).into_iter().collect(),
        require_absent: None,
        for_others: Default::default(),
    }
}

/// A connection, and a table as plain as one can be that finds a run's events again.
struct Bare {
    client: tokio_postgres::Client,
    insert: tokio_postgres::Statement,
}

impl Bare {
    async fn connect(bench: &Bench) -> Bare {
        let client = connect(bench).await;
        client
            .batch_execute(
                "create table if not exists bare (run uuid, last bigint, ndjson bytea, primary key (run, last))",
            )
            .await
            .unwrap();
        client.batch_execute("alter table bare alter column ndjson set storage external").await.unwrap();
        let insert = client.prepare("insert into bare (run, last, ndjson) values ($1, $2, $3)").await.unwrap();
        Bare { client, insert }
    }

    /// As many transactions as each run has appends, each with one insert for each run; seconds.
    async fn insert(&self, shape: Shape, each: usize) -> f64 {
        let runs: Vec<Uuid> = (0..AT_ONCE).map(|_| Uuid::now_v7()).collect();
        let began = Instant::now();
        for at in 0..each {
            let rows =
                runs.iter().flat_map(|run| (0..shape.batches).map(move |n| (*run, (at * shape.batches + n) as i64)));
            // What the row holds is written with the first batch.
            let bytes = |last: i64| {
                let more = if (last as usize).is_multiple_of(shape.batches) { shape.row_bytes } else { 0 };
                text(shape.batch_bytes + more)
            };
            let begin = self.client.batch_execute("begin");
            let inserts = try_join_all(rows.map(|(run, last)| async move {
                let bytes = bytes(last);
                self.client.execute(&self.insert, &[&run, &last, &&bytes[..]]).await
            }));
            let (begun, inserted) = futures_util::future::join(begin, inserts).await;
            begun.unwrap();
            inserted.unwrap();
            self.client.batch_execute("commit").await.unwrap();
        }
        began.elapsed().as_secs_f64()
    }
}

/// A connection to the server that commits durably.
pub async fn connect(bench: &Bench) -> tokio_postgres::Client {
    let url = bench.server.url("public");
    let plain = url.split('?').next().unwrap();
    let (client, connection) = tokio_postgres::connect(plain, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("set synchronous_commit = on").await.unwrap();
    client
}
