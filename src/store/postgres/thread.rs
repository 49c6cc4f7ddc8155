//! The thread that runs the connections of a store.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, mpsc, watch};
use tokio_postgres::Row;
use uuid::Uuid;

use super::cell::cell;
use super::failure;
use super::group::{Request, Scope};
use super::heads::Heads;
use super::link::{Link, Patience};
use super::listen::{self, Waker};
use super::member::{Member, Wakes};
use super::options::Postgres;
use super::place::Place;
use super::read::Questions;
use super::record_reads::RecordReads;
use super::schema;
use super::session::connect;
use super::writer::{Rules, Writer};
use crate::store::held::Held;
use crate::store::{Error, NodeId};

/// Connections for readers.
const READERS: usize = 4;
/// Pause between two measurements of the tables.
const MEASURE: Duration = Duration::from_secs(60);
/// The heads of all logs, in parts: there may be millions.
const HEADS: &str = "select run, head from runs where head > 0 and run > $1 order by run limit 100000";
const SIZE: &str = "select sum(pg_total_relation_size(oid))::bigint from pg_class \
     where relnamespace = current_schema()::regnamespace and relkind = 'r'";

/// A store at work.
pub(super) struct Running {
    pub(super) requests: mpsc::UnboundedSender<Request>,
    pub(super) heads: Arc<Heads>,
    pub(super) questions: Questions,
    pub(super) disk_bytes: Arc<AtomicU64>,
    /// What it is among others; `None` if it is alone.
    pub(super) member: Option<Arc<Member>>,
    pub(super) thread: JoinHandle<()>,
}

/// What names a store to others.
pub(super) struct Identity {
    pub(super) node: NodeId,
    /// The data folder and where it is.
    pub(super) folder: Option<(Uuid, String)>,
    pub(super) held: Arc<Held>,
}

/// Starts the thread and waits until the store can be used, or cannot.
pub(super) fn start(
    options: Postgres,
    place: Arc<Place>,
    identity: Identity,
    stop: Arc<AtomicBool>,
    on_fatal: Box<dyn Fn(&Error) + Send + Sync>,
) -> Result<Running, Error> {
    let (ready, readied) = std_mpsc::sync_channel::<Result<Begun, Error>>(1);
    let failed = |what: &str| Error::Unavailable { source: Error::cause(what) };
    let work = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = ready.send(Err(Error::Unavailable { source: Arc::new(error) }));
                return;
            }
        };
        runtime.block_on(async {
            match begin(&options, place, identity, stop).await {
                Ok((begun, writer, requests)) => {
                    let heads = begun.heads.clone();
                    let _ = ready.send(Ok(begun));
                    // Whatever breaks it, what waits to be written must not wait for ever.
                    let ended = AssertUnwindSafe(writer.run(requests)).catch_unwind().await;
                    let broken = || Some(Error::Unavailable { source: Error::cause("the writer of the store broke") });
                    if let Some(fatal) = ended.unwrap_or_else(|_| broken()) {
                        heads.close_all();
                        on_fatal(&fatal);
                    }
                    heads.close_all();
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        });
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("store-postgres".to_owned()).spawn(work);
    let thread = thread.map_err(|error| Error::Unavailable { source: Arc::new(error) })?;
    match readied.recv() {
        Ok(Ok(Begun { requests, heads, questions, disk_bytes, member })) => {
            Ok(Running { requests, heads, questions, disk_bytes, member, thread })
        }
        Ok(Err(error)) => {
            let _ = thread.join();
            Err(error)
        }
        Err(_) => Err(failed("the thread of the store ended at its start")),
    }
}

/// Connects and looks, on a thread of its own.
pub(super) fn look(place: Arc<Place>) -> Result<String, Error> {
    let unusable = |reason: String| Error::Unusable { store: place.to_string(), reason };
    let look = async {
        let session = connect(&place, "skill-runner doctor", None).await.map_err(|error| unusable(error.reason()))?;
        let found = async {
            let server = schema::look(&session.client).await?;
            Ok::<_, schema::Unfit>(format!(
                "{place}, {server}; {}",
                schema::look_at_tables(&session.client, &place.schema).await?
            ))
        };
        found.await.map_err(|unfit| unusable(unfit.reason()))
    };
    std::thread::scope(|scope| {
        let looked = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| Error::Unavailable { source: Arc::new(error) })?.block_on(look)
        });
        looked.join().unwrap_or_else(|_| Err(unusable("the look at it broke off".to_owned())))
    })
}

struct Begun {
    requests: mpsc::UnboundedSender<Request>,
    heads: Arc<Heads>,
    questions: Questions,
    disk_bytes: Arc<AtomicU64>,
    member: Option<Arc<Member>>,
}

async fn begin(
    options: &Postgres,
    place: Arc<Place>,
    identity: Identity,
    stop: Arc<AtomicBool>,
) -> Result<(Begun, Writer, mpsc::UnboundedReceiver<Request>), Error> {
    let unusable = |reason: String| Error::Unusable { store: place.to_string(), reason };
    let session = connect(&place, "skill-runner start", None).await.map_err(|error| unusable(error.reason()))?;
    let mut client = session.client;
    schema::prepare(&mut client, &place, &options.share).await.map_err(|unfit| unusable(unfit.reason()))?;

    let (wakes, woken) = if options.alone {
        (None, None)
    } else {
        let (wakes, woken) = mpsc::unbounded_channel();
        (Some(wakes), Some(woken))
    };
    let heads = Arc::new(Heads::new(wakes, options.own_first));
    let Identity { node, folder, held } = identity;
    let rules = Rules {
        scope: Scope { alone: options.alone, share: options.share.clone(), heads: heads.clone() },
        patience: options.write_patience,
        answer_patience: options.answer_patience,
        lock_patience: options.lock_patience,
        stop,
    };
    let writer = Writer::register(place.clone(), rules, heads.clone(), held.clone()).await?;
    let server = |error| unusable(failure::refused(&error));
    // Where several services are, each has a folder of its own.
    if let Some((id, path)) = folder.filter(|_| options.alone) {
        let belongs = if options.to_fill {
            schema::claim_empty(&mut client, id).await.map_err(server)?
        } else {
            schema::claim_for(&client, id).await.map_err(server)?
        };
        if options.to_fill && belongs != Some(id) {
            return Err(unusable("it holds runs already: choose another database or schema".to_owned()));
        }
        if belongs != Some(id) {
            return Err(unusable(format!(
                "it belongs to another data folder, where the files of its runs are, and not to {path}: choose that \
                 data_dir, or another database or schema for this one"
            )));
        }
    }
    if options.alone {
        let head = |stored: i64| crate::domain::ids::Seq(u64::try_from(stored).unwrap_or_default());
        let mut after = Uuid::nil();
        loop {
            let found = client.query(HEADS, &[&after]).await.map_err(server)?;
            let of_row = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
            let found = found.iter().map(of_row).collect::<Result<Vec<(Uuid, i64)>, _>>().map_err(server)?;
            heads.load(found.iter().map(|(run, stored)| (crate::domain::ids::RunId(*run), head(*stored))));
            let Some((last, _)) = found.last().copied().filter(|(last, _)| *last > after) else { break };
            after = last;
        }
    }
    drop(client);

    let patience = Patience { connection: options.read_patience, answer: options.answer_patience };
    let link = |name: &str| Link::start(place.clone(), format!("skill-runner {name}"), patience);
    let questions = Questions::new((1..=READERS).map(|n| link(&format!("reader {n}"))).collect());
    let member = woken.map(|woken| {
        let wake = Arc::new(Notify::new());
        let (records, changed) = watch::channel(0);
        let was_asked = Arc::new(AtomicBool::new(true));
        let (told, answer_patience) = (was_asked.clone(), options.answer_patience);
        let waker = Waker { node, wake: wake.clone(), was_asked: told, records, answer_patience };
        let (place, questions, heads) = (place.clone(), questions.clone(), heads.clone());
        tokio::spawn(listen::tell(place.clone(), link("notifier"), questions.clone(), heads.clone(), woken));
        tokio::spawn(listen::look(questions.clone(), heads.clone()));
        tokio::spawn(listen::listen(place, questions.clone(), heads.clone(), waker));
        let wakes = Wakes { wake, was_asked };
        Arc::new(Member::new(link("member"), heads, held, wakes, RecordReads { questions, changed }))
    });
    let disk_bytes = Arc::new(AtomicU64::new(0));
    tokio::spawn(measure(link("measure"), disk_bytes.clone()));
    let (requests, receiver) = mpsc::unbounded_channel();
    Ok((Begun { requests, heads, questions, disk_bytes, member }, writer, receiver))
}

/// Keeps the size of the tables known.
async fn measure(link: Link, bytes: Arc<AtomicU64>) {
    loop {
        let ask = link.ask("measure", |reader| {
            Box::pin(async move {
                let statement = reader.prepared(SIZE).await?;
                reader.client().query_one(&statement, &[]).await
            })
        });
        if let Ok(found) = ask.await.and_then(|row| cell::<Option<i64>>(&row, 0)) {
            bytes.store(found.and_then(|found| u64::try_from(found).ok()).unwrap_or_default(), Ordering::Relaxed);
        }
        tokio::time::sleep(MEASURE).await;
    }
}
