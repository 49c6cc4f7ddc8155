//! The contract of records that services share, as tests that every back end must pass.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;

use super::{Changed, Cluster, Error, Expected, MAX_RECORD_BYTES, Record, RecordChange, RecordList};

/// Checks every clause, with the services of one new store.
pub async fn check(services: &[Arc<dyn Cluster>]) -> Result<(), Error> {
    a_change_is_seen_by_every_service(services).await?;
    a_change_of_what_is_not_expected_is_refused(services).await?;
    of_changes_at_once_one_is_made(services).await?;
    files_of_a_record_are_needed_while_it_names_them(services).await?;
    a_change_wakes_other_services(services).await?;
    what_cannot_be_stored_is_refused(services).await
}

fn put(kind: &'static str, key: &str, expected: Expected, value: &str) -> RecordChange {
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    RecordChange { kind, key: key.to_owned(), expected, value, files: Vec::new(), put_after: 0 }
}

fn removal(kind: &'static str, key: &str, expected: Expected) -> RecordChange {
    RecordChange { value: None, ..put(kind, key, expected, "") }
}

fn record(key: &str, revision: u64, value: &str) -> Record {
    Record { key: key.to_owned(), revision, value: Bytes::copy_from_slice(value.as_bytes()) }
}

async fn a_change_is_seen_by_every_service(services: &[Arc<dyn Cluster>]) -> Result<(), Error> {
    let [one, two, ..] = services else { return Ok(()) };
    assert_eq!(two.records("a").await?, RecordList::default());
    assert_eq!(one.change_record(put("a", "y", Expected::Absent, "1")).await?, Changed::Done { revision: 1 });
    assert_eq!(two.change_record(put("a", "x", Expected::Any, "")).await?, Changed::Done { revision: 2 });
    assert_eq!(one.change_record(put("b", "y", Expected::Absent, "other")).await?, Changed::Done { revision: 1 });
    assert_eq!(two.change_record(put("a", "y", Expected::At(1), "2")).await?, Changed::Done { revision: 3 });
    for service in services {
        let list = RecordList { revision: 3, records: vec![record("x", 2, ""), record("y", 3, "2")] };
        assert_eq!(service.records("a").await?, list);
        assert_eq!(service.record("a", "y").await?, Some(record("y", 3, "2")));
        assert_eq!(service.record("a", "z").await?, None);
        assert_eq!(service.record_revisions(&["b", "never", "a"]).await?, [1, 0, 3]);
    }
    assert_eq!(one.change_record(removal("a", "x", Expected::At(2))).await?, Changed::Done { revision: 4 });
    let list = RecordList { revision: 4, records: vec![record("y", 3, "2")] };
    assert_eq!(two.records("a").await?, list);
    Ok(())
}

async fn a_change_of_what_is_not_expected_is_refused(services: &[Arc<dyn Cluster>]) -> Result<(), Error> {
    let [one, two, ..] = services else { return Ok(()) };
    let there = Some(record("k", 1, "v"));
    one.change_record(put("c", "k", Expected::Absent, "v")).await?;
    for expected in [Expected::Absent, Expected::At(7)] {
        let refused = Changed::Refused { found: there.clone() };
        assert_eq!(two.change_record(put("c", "k", expected, "w")).await?, refused);
        assert_eq!(two.change_record(removal("c", "k", expected)).await?, refused);
    }
    let absent = two.change_record(put("c", "l", Expected::At(1), "w")).await?;
    assert_eq!(absent, Changed::Refused { found: None });
    assert_eq!(two.change_record(removal("c", "l", Expected::Any)).await?, Changed::Done { revision: 1 });
    assert_eq!(one.records("c").await?, RecordList { revision: 1, records: there.into_iter().collect() });
    // A record that is made again is another one.
    one.change_record(removal("c", "k", Expected::Any)).await?;
    one.change_record(put("c", "k", Expected::Absent, "v")).await?;
    let refused = Changed::Refused { found: Some(record("k", 3, "v")) };
    assert_eq!(two.change_record(put("c", "k", Expected::At(1), "w")).await?, refused);
    Ok(())
}

async fn of_changes_at_once_one_is_made(services: &[Arc<dyn Cluster>]) -> Result<(), Error> {
    for round in 0..20_u64 {
        let expected = if round == 0 { Expected::Absent } else { Expected::At(round) };
        let racing = (services.iter().enumerate())
            .map(|(at, service)| service.change_record(put("d", "k", expected, &at.to_string())));
        let racing = join_all(racing).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let won = racing.iter().filter(|changed| matches!(changed, Changed::Done { .. })).count();
        let seen = racing.iter().map(|changed| match changed {
            Changed::Done { revision } => Some(*revision),
            Changed::Refused { found } => found.as_ref().map(|found| found.revision),
        });
        assert_eq!((won, seen.collect()), (1, BTreeSet::from([Some(round + 1)])), "round {round}");
    }
    Ok(())
}

async fn files_of_a_record_are_needed_while_it_names_them(services: &[Arc<dyn Cluster>]) -> Result<(), Error> {
    let [one, two, ..] = services else { return Ok(()) };
    let files = [[4; 32], [5; 32], [6; 32]];
    let names = |key: &str, of: &[[u8; 32]]| RecordChange { files: of.to_vec(), ..put("e", key, Expected::Any, "") };
    one.change_record(names("k", &[files[0], files[1], files[0]])).await?;
    one.change_record(names("l", &files[..1])).await?;
    assert_eq!(two.unused_files(&files).await?, [files[2]]);
    one.change_record(names("k", &files[2..])).await?;
    assert_eq!(two.unused_files(&files).await?, [files[1]]);
    // What is refused names nothing.
    two.change_record(RecordChange { expected: Expected::Absent, ..names("k", &files[1..2]) }).await?;
    assert_eq!(two.unused_files(&files).await?, [files[1]]);
    one.change_record(removal("e", "l", Expected::Any)).await?;
    one.change_record(removal("e", "k", Expected::Any)).await?;
    assert_eq!(two.unused_files(&files).await?, files);
    Ok(())
}

async fn a_change_wakes_other_services(services: &[Arc<dyn Cluster>]) -> Result<(), Error> {
    let [one, two, ..] = services else { return Ok(()) };
    let (mut woken, mut also) = (two.records_changed(), two.records_changed());
    for n in 0..3 {
        one.change_record(put("f", "k", Expected::Any, &n.to_string())).await?;
        let value = Bytes::from(n.to_string());
        for woken in [&mut woken, &mut also] {
            // One may be left from before, but then another comes.
            while two.record("f", "k").await?.is_none_or(|record| record.value != value) {
                woken.changed().await.map_err(|_| Error::Closed)?;
            }
        }
    }
    Ok(())
}

async fn what_cannot_be_stored_is_refused(services: &[Arc<dyn Cluster>]) -> Result<(), Error> {
    let [one, ..] = services else { return Ok(()) };
    for key in ["", "a\0b", &"k".repeat(513)] {
        let refused = one.change_record(put("g", key, Expected::Any, "")).await;
        assert!(matches!(refused, Err(Error::Malformed { .. })), "{refused:?}");
        assert_eq!(one.record("g", key).await?, None);
    }
    let large = |bytes: usize| RecordChange { value: Some(vec![0; bytes].into()), ..put("g", "k", Expected::Any, "") };
    let refused = one.change_record(large(MAX_RECORD_BYTES + 1)).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert_eq!(one.record_revisions(&["g"]).await?, [0]);
    assert_eq!(one.change_record(large(MAX_RECORD_BYTES)).await?, Changed::Done { revision: 1 });
    Ok(())
}
