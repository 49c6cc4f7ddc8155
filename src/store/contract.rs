//! The contract of an event store, as tests that every back end must pass.
//!
//! Each clause gets its own store and panics where the contract is broken; a returned error is a call that
//! should have worked.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use uuid::Uuid;

use super::{Append, Error, EventBatch, EventStore, IndexChange, IndexKey, MAX_APPEND_BYTES, RunCounts, RunFilter};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::statechart::Status;

/// Checks every clause, each on a store that `make` opens empty.
pub async fn check(make: impl Fn() -> Arc<dyn EventStore>) -> Result<(), Error> {
    a_wrong_expected_head_is_a_conflict_and_writes_nothing(&*make()).await?;
    batches_that_do_not_follow_the_head_are_refused(&*make()).await?;
    an_append_over_the_limit_changes_nothing(&*make()).await?;
    a_row_that_must_be_absent_lets_one_append_in(&*make()).await?;
    rows_change_with_the_events_or_not_at_all(&*make()).await?;
    a_read_from_any_cursor_gives_exactly_the_suffix(&*make()).await?;
    long_events_come_back_whole(&*make()).await?;
    long_rows_come_back_whole(&*make()).await?;
    a_watch_begins_at_the_head_and_wakes(&*make()).await?;
    runs_are_listed_newest_first_in_pages(&*make()).await?;
    a_filter_finds_runs_by_what_their_rows_say_now(&*make()).await?;
    deleted_events_leave_their_rows_and_a_deleted_run_leaves_nothing(&*make()).await?;
    appends_called_in_order_take_effect_in_order(&*make()).await?;
    of_appends_at_once_each_stands_or_fails_alone(&*make()).await?;
    tails_of_concurrent_appenders_see_no_gap_and_no_duplicate(make()).await
}

/// A run id; larger numbers are newer.
pub fn run(n: u128) -> RunId {
    RunId(Uuid::from_u128(n))
}

/// An append of events whose text tells run and seq, so that a mix-up shows.
pub fn events(run: RunId, expected_head: Seq, count: u32) -> Append {
    let first = expected_head.next();
    let text: String = (first.0..first.0 + u64::from(count)).map(|seq| text(run, seq)).collect();
    let batch = EventBatch { first, count, ndjson: text.into() };
    let events = if count == 0 { Vec::new() } else { vec![batch] };
    Append { run, expected_head, events, index: Vec::new(), require_absent: None, for_others: Default::default() }
}

fn text(run: RunId, seq: u64) -> String {
    format!("{{\"run\":\"{run}\",\"seq\":{seq},\"pad\":\"{}\"}}\n", "x".repeat((seq % 7) as usize * 11))
}

/// Checks that the run holds exactly the events that [`events`] makes, and returns how many.
pub async fn holds_whole_log(store: &dyn EventStore, run: RunId) -> Result<Seq, Error> {
    let head = store.head(&run).await?;
    let expected: String = (1..=head.0).map(|seq| text(run, seq)).collect();
    assert_eq!(read_all(store, run, Seq::START, 4096).await?, expected, "run {run}");
    Ok(head)
}

async fn read_all(store: &dyn EventStore, run: RunId, mut after: Seq, max_bytes: usize) -> Result<String, Error> {
    let mut all = Vec::new();
    loop {
        let page = store.read(&run, after, max_bytes).await?;
        if page.is_empty() {
            return Ok(String::from_utf8_lossy(&all).into_owned());
        }
        let bytes: usize = page.iter().map(|batch| batch.ndjson.len()).sum();
        let count: u32 = page.iter().map(|batch| batch.count).sum();
        assert!(bytes <= max_bytes || count == 1, "{count} events of {bytes} bytes for {max_bytes}");
        for batch in page {
            assert_eq!((batch.first, batch.flaw()), (after.next(), None));
            after = batch.last();
            all.extend_from_slice(&batch.ndjson);
        }
    }
}

fn row(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// The whole error as text, to compare.
fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{error:?}"),
    }
}

async fn a_wrong_expected_head_is_a_conflict_and_writes_nothing(store: &dyn EventStore) -> Result<(), Error> {
    assert_eq!(store.append(events(run(1), Seq(0), 3)).await?, Seq(3));
    for wrong in [0, 2, 4] {
        let mut append = events(run(1), Seq(wrong), 2);
        append.index = vec![IndexChange::Put(IndexKey::Run(run(1)), row("no"))];
        assert_eq!(refusal(store.append(append).await), "Conflict { actual: Seq(3) }");
    }
    assert_eq!(holds_whole_log(store, run(1)).await?, Seq(3));
    assert_eq!(store.index(&IndexKey::Run(run(1))).await?, None);
    assert_eq!(store.head(&run(2)).await?, Seq::START);
    assert_eq!(store.append(events(run(1), Seq(3), 2)).await?, Seq(5));
    assert_eq!(holds_whole_log(store, run(1)).await?, Seq(5));
    Ok(())
}

async fn batches_that_do_not_follow_the_head_are_refused(store: &dyn EventStore) -> Result<(), Error> {
    let batches = |parts: [(u64, u32); 2]| Append {
        events: parts.into_iter().flat_map(|(after, count)| events(run(1), Seq(after), count).events).collect(),
        ..events(run(1), Seq(0), 0)
    };
    for (wrong, reason) in [
        ([(1, 2), (3, 1)], "a batch begins at 2 after 0"),
        ([(0, 2), (3, 1)], "a batch begins at 4 after 2"),
        ([(0, 2), (1, 1)], "a batch begins at 2 after 2"),
    ] {
        assert_eq!(refusal(store.append(batches(wrong)).await), format!("Malformed {{ reason: {reason:?} }}"));
    }
    let mut miscounted = events(run(1), Seq(0), 2);
    miscounted.events.iter_mut().for_each(|batch| batch.count = 3);
    let reason = "the batch at 1 holds 2 events and announces 3";
    assert_eq!(refusal(store.append(miscounted).await), format!("Malformed {{ reason: {reason:?} }}"));

    assert_eq!(store.head(&run(1)).await?, Seq::START);
    assert_eq!(store.append(batches([(0, 2), (2, 1)])).await?, Seq(3));
    assert_eq!(holds_whole_log(store, run(1)).await?, Seq(3));
    Ok(())
}

async fn an_append_over_the_limit_changes_nothing(store: &dyn EventStore) -> Result<(), Error> {
    // The row's three bytes count as well.
    let of = |len: usize| Append {
        events: vec![EventBatch { first: Seq(1), count: 1, ndjson: format!("{}\n", "x".repeat(len - 4)).into() }],
        index: vec![IndexChange::Put(IndexKey::Run(run(1)), row("row"))],
        ..events(run(1), Seq(0), 0)
    };
    let bytes = MAX_APPEND_BYTES + 1;
    assert_eq!(
        refusal(store.append(of(bytes)).await),
        format!("TooLarge {{ bytes: {bytes}, limit: {MAX_APPEND_BYTES} }}")
    );
    assert_eq!((store.head(&run(1)).await?, store.index(&IndexKey::Run(run(1))).await?), (Seq::START, None));

    assert_eq!(store.append(of(MAX_APPEND_BYTES)).await?, Seq(1));
    assert_eq!(store.read(&run(1), Seq(0), 1).await?, of(MAX_APPEND_BYTES).events);
    Ok(())
}

async fn a_row_that_must_be_absent_lets_one_append_in(store: &dyn EventStore) -> Result<(), Error> {
    let key = IndexKey::Idempotency([9; 32]);
    let claim = |n: u128| {
        let mut append = events(run(n), Seq(0), 1);
        append.index = vec![IndexChange::Put(key, Bytes::copy_from_slice(run(n).as_bytes()))];
        append.require_absent = Some(key);
        store.append(append)
    };
    // All at once, so that they meet inside one group where the back end has groups.
    let claims: Vec<_> = (1..=8).map(claim).collect();
    let results = join_all(claims).await;
    let winner = Bytes::copy_from_slice(run(1).as_bytes());
    let taken = format!("Taken {{ value: {winner:?} }}");
    let expected: Vec<_> = (1..=8).map(|n| if n == 1 { "Seq(1)".to_owned() } else { taken.clone() }).collect();
    assert_eq!(results.into_iter().map(refusal).collect::<Vec<_>>(), expected);
    assert_eq!(store.index(&key).await?, Some(winner));
    for n in 2..=8 {
        assert_eq!(store.head(&run(n)).await?, Seq::START);
    }
    Ok(())
}

async fn rows_change_with_the_events_or_not_at_all(store: &dyn EventStore) -> Result<(), Error> {
    let keys = [
        IndexKey::Run(run(1)),
        IndexKey::Request(RequestId(Uuid::from_u128(1))),
        IndexKey::Idempotency([1; 32]),
        IndexKey::Cache([1; 32]),
    ];
    let rows = async |store: &dyn EventStore| {
        let mut rows = Vec::new();
        for key in &keys {
            rows.push(store.index(key).await?);
        }
        Ok::<_, Error>(rows)
    };
    let texts = ["run", "request", "idempotency", ""];
    let mut append = events(run(1), Seq(0), 1);
    append.index = keys.into_iter().zip(texts).map(|(key, text)| IndexChange::Put(key, row(text))).collect();
    assert_eq!(store.append(append).await?, Seq(1));
    assert_eq!(rows(store).await?, texts.map(|text| Some(row(text))));

    // Rows alone; the last change of a row counts.
    let mut append = events(run(1), Seq(1), 0);
    append.index = vec![
        IndexChange::Put(keys[0], row("lost")),
        IndexChange::Put(keys[0], row("new")),
        IndexChange::Delete(keys[1]),
        IndexChange::Delete(keys[2]),
        IndexChange::Put(keys[2], row("again")),
    ];
    assert_eq!(store.append(append.clone()).await?, Seq(1));
    let expected = vec![Some(row("new")), None, Some(row("again")), Some(row(""))];
    assert_eq!(rows(store).await?, expected);

    append.expected_head = Seq(7);
    append.index = vec![IndexChange::Delete(keys[0])];
    assert_eq!(refusal(store.append(append).await), "Conflict { actual: Seq(1) }");
    assert_eq!(rows(store).await?, expected);
    Ok(())
}

async fn long_rows_come_back_whole(store: &dyn EventStore) -> Result<(), Error> {
    let value = |n: u128, len: usize| Bytes::from(format!("{n} {}", "r".repeat(len)));
    // Rows that grow, shrink and disappear, next to rows of other lengths.
    for len in [10, 6_142, 6_143, 30_000, 100_000, 6_144, 20_000, 0, 12_286, 12_287] {
        for n in 1..=3 {
            let mut append = events(run(n), Seq::START, 0);
            append.index = vec![IndexChange::Put(IndexKey::Run(run(n)), value(n, len * n as usize))];
            store.append(append).await?;
        }
        let expected: Vec<_> = [3, 2, 1].map(|n| (run(n), value(n, len * n as usize))).into();
        assert_eq!(store.runs(None, 9).await?, expected, "{len}");
        assert_eq!(store.runs(Some(run(3)), 1).await?, expected[1..2], "{len}");
        assert_eq!(store.index(&IndexKey::Run(run(2))).await?.as_ref(), Some(&expected[1].1), "{len}");
    }
    store.delete_run(&run(2), vec![]).await?;
    assert_eq!(store.runs(None, 9).await?.into_iter().map(|(run, _)| run).collect::<Vec<_>>(), [run(3), run(1)]);
    Ok(())
}

async fn a_read_from_any_cursor_gives_exactly_the_suffix(store: &dyn EventStore) -> Result<(), Error> {
    let mut head = Seq::START;
    for count in [1, 1, 5, 300, 2, 0, 40, 1] {
        head = store.append(events(run(5), head, count)).await?;
        // Neighbours in the order of keys must not be mistaken for it.
        store.append(events(run(4), store.head(&run(4)).await?, 1)).await?;
        store.append(events(run(6), store.head(&run(6)).await?, 1)).await?;
    }
    assert_eq!(head, Seq(350));
    for after in 0..=head.0 + 2 {
        let suffix: String = (after + 1..=head.0).map(|seq| text(run(5), seq)).collect();
        for max_bytes in [0, 150, 3000, usize::MAX] {
            // With a limit of 0 bytes each read returns one event. That is slow, so not every cursor is tried.
            if max_bytes > 150 || after % 50 == 0 {
                assert_eq!(read_all(store, run(5), Seq(after), max_bytes).await?, suffix, "after {after}, {max_bytes}");
            }
        }
    }
    Ok(())
}

async fn long_events_come_back_whole(store: &dyn EventStore) -> Result<(), Error> {
    let lens = [10, 6_143, 6_144, 6_145, 64 * 1024, 20, 200_000, 12_288, 1];
    let texts: Vec<String> =
        lens.iter().zip('a'..).map(|(len, c)| format!("{}\n", String::from(c).repeat(*len))).collect();
    let ndjson = Bytes::from(texts.concat());
    let batch = EventBatch { first: Seq(1), count: 9, ndjson: ndjson.clone() };
    store.append(Append { events: vec![batch], ..events(run(1), Seq(0), 0) }).await?;
    for after in 0..lens.len() {
        for max_bytes in [1, 7_000, 100_000, usize::MAX] {
            assert_eq!(read_all(store, run(1), Seq(after as u64), max_bytes).await?, texts[after..].concat());
        }
    }
    assert_eq!(store.head(&run(1)).await?, Seq(9));
    Ok(())
}

async fn a_watch_begins_at_the_head_and_wakes(store: &dyn EventStore) -> Result<(), Error> {
    store.append(events(run(1), Seq(0), 2)).await?;
    let mut first = store.watch(&run(1));
    let mut second = store.watch(&run(1));
    let other = store.watch(&run(2));
    assert_eq!((*first.borrow_and_update(), *second.borrow_and_update()), (Seq(2), Seq(2)));

    store.append(events(run(1), Seq(2), 3)).await?;
    for watch in [&mut first, &mut second] {
        assert!(watch.changed().await.is_ok());
        assert_eq!(*watch.borrow_and_update(), Seq(5));
    }
    assert_eq!(other.has_changed().ok(), Some(false));

    drop((first, second));
    store.append(events(run(1), Seq(5), 1)).await?;
    let mut third = store.watch(&run(1));
    assert_eq!(*third.borrow_and_update(), Seq(6));
    store.append(events(run(1), Seq(6), 1)).await?;
    assert!(third.changed().await.is_ok());

    store.delete_events(&run(1)).await?;
    assert!(third.changed().await.is_err(), "the tail of a deleted log ends");
    Ok(())
}

async fn runs_are_listed_newest_first_in_pages(store: &dyn EventStore) -> Result<(), Error> {
    let value = |n: u128| Bytes::from(format!("row {n}"));
    for n in [3, 1, 5, 4, 2] {
        let mut append = events(run(n), Seq(0), 1);
        append.index = vec![
            IndexChange::Put(IndexKey::Run(run(n)), value(n)),
            IndexChange::Put(IndexKey::Request(RequestId(Uuid::from_u128(n))), row("other")),
        ];
        store.append(append).await?;
    }
    let rows = |ns: &[u128]| ns.iter().map(|n| (run(*n), value(*n))).collect::<Vec<_>>();
    assert_eq!(store.runs(None, 10).await?, rows(&[5, 4, 3, 2, 1]));
    assert_eq!(store.runs(None, 2).await?, rows(&[5, 4]));
    assert_eq!(store.runs(Some(run(4)), 2).await?, rows(&[3, 2]));
    assert_eq!(store.runs(Some(run(2)), 2).await?, rows(&[1]));
    assert_eq!(store.runs(Some(run(1)), 2).await?, rows(&[]));
    assert_eq!(store.runs(None, 0).await?, rows(&[]));
    Ok(())
}

async fn a_filter_finds_runs_by_what_their_rows_say_now(store: &dyn EventStore) -> Result<(), Error> {
    let row = |status: &str, skill: &str| {
        Bytes::from(format!(
            "{{\"state\":{{\"skill\":{{\"id\":\"{skill}\"}},\"engine\":\"script\",\"status\":\"{status}\"}}}}"
        ))
    };
    let put = |n: u128, row: &Bytes| Append {
        index: vec![IndexChange::Put(IndexKey::Run(run(n)), row.clone())],
        ..events(run(n), Seq(0), 0)
    };
    // Every third has failed, every second is of skill b.
    let of = |n: u128| {
        row(if n.is_multiple_of(3) { "failed" } else { "queued" }, if n.is_multiple_of(2) { "b" } else { "a" })
    };
    for n in 1..=24 {
        store.append(put(n, &of(n))).await?;
    }
    store.append(put(25, &Bytes::from_static(b"no row of a run"))).await?;
    let failed = RunFilter { status: Some(Status::Failed), ..RunFilter::default() };
    let both = RunFilter { skill_id: Some("b".into()), ..failed.clone() };
    let found = |runs: &[u128]| runs.iter().map(|n| (run(*n), of(*n))).collect::<Vec<_>>();
    assert_eq!(store.runs_with(&failed, None, 3).await?, found(&[24, 21, 18]));
    assert_eq!(store.runs_with(&failed, Some(run(18)), 9).await?, found(&[15, 12, 9, 6, 3]));
    assert_eq!(store.runs_with(&both, None, 9).await?, found(&[24, 18, 12, 6]));
    let none = RunFilter { engine: Some("none".into()), ..RunFilter::default() };
    assert_eq!(store.runs_with(&none, None, 9).await?, []);
    let counted = |failed: u64, queued: u64| RunCounts::from([(Status::Queued, queued), (Status::Failed, failed)]);
    assert_eq!(store.counts(&RunFilter::default()).await?, counted(8, 16));
    assert_eq!(store.counts(&both).await?, counted(4, 8));
    assert_eq!(store.counts(&none).await?, RunCounts::new());
    assert_eq!(store.runs_with(&RunFilter::default(), None, 1).await?[0].0, run(25));

    // What changes is found as it is now, and what is deleted is not found.
    store.append(put(23, &row("failed", "a"))).await?;
    store.append(put(24, &row("succeeded", "b"))).await?;
    store.delete_run(&run(21), Vec::new()).await?;
    let runs = store.runs_with(&failed, None, 3).await?.into_iter().map(|(run, _)| run);
    assert_eq!(runs.collect::<Vec<_>>(), [23, 18, 15].map(run));
    let now = [(Status::Queued, 15), (Status::Succeeded, 1), (Status::Failed, 7)];
    assert_eq!(store.counts(&failed).await?, RunCounts::from(now));
    Ok(())
}

async fn deleted_events_leave_their_rows_and_a_deleted_run_leaves_nothing(store: &dyn EventStore) -> Result<(), Error> {
    let request = |n: u128| IndexKey::Request(RequestId(Uuid::from_u128(n)));
    for n in 1..=3 {
        let mut append = events(run(n), Seq(0), 50);
        append.index =
            vec![IndexChange::Put(IndexKey::Run(run(n)), row("run")), IndexChange::Put(request(n), row("request"))];
        append.index.push(IndexChange::Put(IndexKey::Open(run(n)), row("")));
        store.append(append).await?;
    }
    assert_eq!(store.open_runs().await?, vec![run(1), run(2), run(3)]);
    store.delete_events(&run(1)).await?;
    store.delete_run(&run(2), vec![request(2)]).await?;
    store.delete_run(&run(9), vec![request(9)]).await?;

    for gone in [1, 2] {
        assert_eq!(store.head(&run(gone)).await?, Seq::START);
        assert_eq!(store.read(&run(gone), Seq(0), 1000).await?, vec![]);
        assert_eq!(refusal(store.append(events(run(gone), Seq(50), 1)).await), "Conflict { actual: Seq(0) }");
        assert_eq!(refusal(store.append(events(run(gone), Seq(0), 1)).await), "Deleted");
    }
    assert_eq!(store.open_runs().await?, vec![run(3)]);
    assert_eq!(store.index(&request(1)).await?, Some(row("request")));
    assert_eq!(store.index(&request(2)).await?, None);
    assert_eq!(store.runs(None, 9).await?, vec![(run(3), row("run")), (run(1), row("run"))]);
    assert_eq!(holds_whole_log(store, run(3)).await?, Seq(50));

    // Rows of a run outlive its events, and change on their own.
    let mut append = events(run(1), Seq(0), 0);
    append.index = vec![IndexChange::Put(IndexKey::Run(run(1)), row("later")), IndexChange::Delete(request(1))];
    store.append(append).await?;
    assert_eq!(store.runs(None, 9).await?, vec![(run(3), row("run")), (run(1), row("later"))]);
    assert_eq!(store.index(&request(1)).await?, None);
    Ok(())
}

async fn appends_called_in_order_take_effect_in_order(store: &dyn EventStore) -> Result<(), Error> {
    let calls: Vec<_> = (0..200).map(|n| store.append(events(run(1), Seq(n), 1))).collect();
    let heads: Vec<_> = (1..=200).map(Seq).collect();
    assert_eq!(try_join_all(calls).await?, heads);
    assert_eq!(holds_whole_log(store, run(1)).await?, Seq(200));

    // Append, delete, append again, without waiting in between; also of a run that begins with this.
    for (n, head) in [(1, 200), (2, 0)] {
        let (append, delete) = (store.append(events(run(n), Seq(head), 4)), store.delete_events(&run(n)));
        let again = store.append(events(run(n), Seq(head + 4), 3));
        assert_eq!((append.await?, delete.await?), (Seq(head + 4), ()));
        assert_eq!(refusal(again.await), "Conflict { actual: Seq(0) }");
        assert_eq!(holds_whole_log(store, run(n)).await?, Seq::START);
    }
    Ok(())
}

async fn of_appends_at_once_each_stands_or_fails_alone(store: &dyn EventStore) -> Result<(), Error> {
    try_join_all((0..6).map(|n| store.append(events(run(n), Seq::START, 2)))).await?;
    store.delete_events(&run(0)).await?;
    // Of 0 the events are deleted, 1 is elsewhere, 2 is appended to twice, 9 is not there, and 8 begins.
    let calls = [(3, 2), (0, 2), (1, 1), (2, 2), (4, 2), (2, 5), (9, 2), (8, 0), (5, 2)];
    let told = join_all(calls.map(|(n, head)| store.append(events(run(n), Seq(head), 3)))).await;
    let told: Vec<String> = told.into_iter().map(refusal).collect();
    let (gone, moved) = ("Conflict { actual: Seq(0) }", "Conflict { actual: Seq(2) }");
    assert_eq!(told, ["Seq(5)", gone, moved, "Seq(5)", "Seq(5)", "Seq(8)", gone, "Seq(3)", "Seq(5)"]);
    for (n, head) in [(0, 0), (1, 2), (2, 8), (3, 5), (4, 5), (5, 5), (8, 3), (9, 0)] {
        assert_eq!(holds_whole_log(store, run(n)).await?, Seq(head));
    }
    Ok(())
}

async fn tails_of_concurrent_appenders_see_no_gap_and_no_duplicate(store: Arc<dyn EventStore>) -> Result<(), Error> {
    const RUNS: u128 = 16;
    const LAST: u64 = 300;
    let followers = (0..RUNS).map(|n| tokio::spawn(follow(store.clone(), run(n), Seq(LAST))));
    let followers: Vec<_> = followers.collect();
    let appenders = (0..RUNS).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut head = Seq::START;
            while head < Seq(LAST) {
                let count = (head.0 % 5 + 1).min(LAST - head.0) as u32;
                let mut append = events(run(n), head, count);
                let row = Bytes::copy_from_slice(&(head.0 + u64::from(count)).to_be_bytes());
                append.index = vec![IndexChange::Put(IndexKey::Run(run(n)), row)];
                head = store.append(append).await?;
            }
            Ok::<_, Error>(())
        })
    });
    let appenders: Vec<_> = appenders.collect();
    for result in join_all(appenders).await.into_iter().chain(join_all(followers).await) {
        assert!(matches!(result, Ok(Ok(()))), "{result:?}");
    }
    Ok(())
}

/// Follows a run to its last event, checking every event and that rows and heads never run ahead of each other.
async fn follow(store: Arc<dyn EventStore>, run: RunId, last: Seq) -> Result<(), Error> {
    let mut watch = store.watch(&run);
    let mut cursor = Seq::START;
    while cursor < last {
        let announced = *watch.borrow_and_update();
        let row =
            store.index(&IndexKey::Run(run)).await?.map_or(0, |row| row.iter().fold(0, |n, b| n << 8 | u64::from(*b)));
        let head = store.head(&run).await?;
        assert!(head >= announced, "announced {announced} and then showed {head}");
        // The row was read before the head, and both change in one step.
        assert!(head.0 >= row, "the row tells of {row} and the log ends at {head}");
        for batch in store.read(&run, cursor, 2000).await? {
            for (seq, event) in batch.events() {
                assert_eq!((seq, event), (cursor.next(), Bytes::from(text(run, seq.0).trim_end().to_owned())));
                cursor = seq;
            }
        }
        if cursor >= *watch.borrow() && cursor < last {
            assert!(watch.changed().await.is_ok());
        }
    }
    Ok(())
}

/// For stores that outlive their process: opens the same store again and again, and finds everything.
pub async fn check_reopen(open: impl Fn() -> Arc<dyn EventStore>) -> Result<(), Error> {
    for round in 0..10_u64 {
        let store = open();
        let mut kept = Seq(round * 40);
        assert_eq!(holds_whole_log(&*store, run(1)).await?, kept);
        let row = (round > 0).then(|| Bytes::from(kept.0.to_string()));
        assert_eq!(store.index(&IndexKey::Run(run(1))).await?, row);
        for _ in 0..8 {
            let mut append = events(run(1), kept, 5);
            append.index = vec![IndexChange::Put(IndexKey::Run(run(1)), Bytes::from((kept.0 + 5).to_string()))];
            kept = store.append(append).await?;
        }
        // Runs that came and went, of which nothing comes back.
        let gone = |round: u64| run(u128::from(100 + round));
        for earlier in 0..round {
            assert_eq!(store.head(&gone(earlier)).await?, Seq::START);
            assert_eq!(store.index(&IndexKey::Run(gone(earlier))).await?, None);
        }
        let mut append = events(gone(round), Seq(0), 30);
        append.index = vec![IndexChange::Put(IndexKey::Run(gone(round)), Bytes::from_static(b"row"))];
        store.append(append).await?;
        store.delete_run(&gone(round), vec![]).await?;
    }
    Ok(())
}
