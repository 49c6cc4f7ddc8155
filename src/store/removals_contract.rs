//! The contract of removals of shared files, as tests that every back end must pass.

use std::time::Duration;

use bytes::Bytes;

use super::cluster_contract::{Services, View, joined};
use super::contract::{events, run};
use super::removals::BEGUN_FOR;
use super::{Append, Changed, Error, Expected, FileHash, ForOthers, IndexChange, IndexKey, RecordChange};
use crate::domain::ids::Seq;

const HOUR: Duration = Duration::from_secs(3600);

/// Checks every clause, each on a new store with four services.
pub async fn check(make: impl Fn() -> Services) -> Result<(), Error> {
    only_what_nothing_needs_is_removed(&make()).await?;
    what_is_removed_must_be_put_again(&make()).await?;
    what_a_record_names_must_be_put_again(&make()).await?;
    a_removal_that_is_not_ended_is_begun_again(&make()).await?;
    one_service_at_a_time_looks(&make()).await?;
    who_has_no_lease_can_have_files_looked_for(&make()).await
}

const NONE: [FileHash; 0] = [];

fn file(n: u8) -> FileHash {
    [n; 32]
}

fn needs(n: u128, head: u64, files: &[FileHash], put_after: u64, only_these: bool) -> Append {
    let for_others = ForOthers { files: files.to_vec(), put_after, only_these, ..ForOthers::default() };
    let row = IndexChange::Put(IndexKey::Snapshot(run(n)), Bytes::from(format!("{head}")));
    Append { for_others, index: vec![row], ..events(run(n), Seq(head), 1) }
}

/// Begins and ends the removal of those that nothing needs; which they are.
async fn removed(view: &View, among: &[FileHash]) -> Result<Vec<FileHash>, Error> {
    let mut begun = view.cluster.begin_removal(among).await?;
    view.cluster.end_removal(&begun, &[]).await?;
    begun.sort_unstable();
    Ok(begun)
}

async fn only_what_nothing_needs_is_removed(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    let all = [file(1), file(2), file(3)];
    one.store.append(needs(1, 0, &all[..2], 0, true)).await?;
    assert_eq!(removed(two, &all).await?, [file(3)]);
    two.store.delete_events(&run(1)).await?;
    assert_eq!(removed(two, &all[..2]).await?, NONE, "a sealed log leaves the files of its run");
    two.store.delete_run(&run(1), Vec::new()).await?;
    assert_eq!(removed(two, &all[..2]).await?, all[..2]);
    // What a run needs instead sets free what it needed before, and an append that is refused sets nothing free.
    let now = one.store.removals().await?;
    one.store.append(needs(2, 0, &[file(4), file(5)], now, true)).await?;
    one.store.append(needs(2, 1, &[file(6)], now, false)).await?;
    let late = two.store.append(needs(2, 1, &[file(7)], now, true)).await;
    assert!(matches!(late, Err(Error::Conflict { actual: Seq(2) })), "{late:?}");
    assert_eq!(removed(two, &[file(4), file(5), file(6), file(7)]).await?, [file(7)]);
    one.store.append(needs(2, 2, &[file(5)], now, true)).await?;
    assert_eq!(removed(two, &[file(4), file(5), file(6)]).await?, [file(4), file(6)]);
    Ok(())
}

async fn what_is_removed_must_be_put_again(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    let refused = |result: Result<Seq, Error>| matches!(result, Err(Error::FilesRemoved));
    let before = one.store.removals().await?;
    assert_eq!(two.cluster.begin_removal(&[file(1), file(2)]).await?.len(), 2);
    let during = one.store.removals().await?;
    assert!(refused(one.store.append(needs(1, 0, &[file(1)], during, true)).await), "it is being removed");
    assert_eq!(one.store.head(&run(1)).await?, Seq(0), "nothing was written");
    one.store.append(needs(2, 0, &[file(3)], during, true)).await?;
    two.cluster.end_removal(&[file(1)], &[file(2)]).await?;
    // Put before the removal, or while it was under way: it may be gone.
    assert!(refused(one.store.append(needs(1, 0, &[file(1)], before, true)).await));
    assert!(refused(one.store.append(needs(1, 0, &[file(3), file(1)], during, true)).await));
    one.store.append(needs(1, 0, &[file(2)], before, true)).await?;
    let after = one.store.removals().await?;
    one.store.append(needs(1, 1, &[file(1)], after, true)).await?;
    assert_eq!(two.cluster.begin_removal(&[file(1)]).await?, NONE);
    // The same file may be removed many times.
    one.store.delete_run(&run(1), Vec::new()).await?;
    assert_eq!(removed(two, &[file(1)]).await?, [file(1)]);
    assert!(refused(one.store.append(needs(3, 0, &[file(1)], after, true)).await));
    Ok(())
}

fn names(expected: Expected, files: &[FileHash], put_after: u64) -> RecordChange {
    let value = Some(Bytes::from_static(b"v"));
    RecordChange { kind: "k", key: "r".to_owned(), expected, value, files: files.to_vec(), put_after }
}

async fn what_a_record_names_must_be_put_again(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    let refused = |result: Result<Changed, Error>| matches!(result, Err(Error::FilesRemoved));
    let before = one.store.removals().await?;
    assert_eq!(two.cluster.begin_removal(&[file(1)]).await?, [file(1)]);
    let during = one.store.removals().await?;
    let change = one.cluster.change_record(names(Expected::Absent, &[file(1)], during)).await;
    assert!(refused(change), "it is being removed");
    two.cluster.end_removal(&[file(1)], &[]).await?;
    // Put before the removal, or while it was under way: it may be gone.
    for put_after in [before, during] {
        assert!(refused(one.cluster.change_record(names(Expected::Absent, &[file(1), file(2)], put_after)).await));
    }
    assert_eq!(two.cluster.record("k", "r").await?, None, "nothing was changed");
    assert_eq!(two.cluster.record_revisions(&["k"]).await?, [0]);
    // Put again it can be named at once, however short ago it was removed.
    let after = one.store.removals().await?;
    let changed = one.cluster.change_record(names(Expected::Absent, &[file(1), file(2)], after)).await?;
    assert_eq!(changed, Changed::Done { revision: 1 });
    assert_eq!(removed(two, &[file(1), file(2), file(3)]).await?, [file(3)]);
    // What it names already stays, and what names nothing depends on no removal.
    let changed = one.cluster.change_record(names(Expected::At(1), &[file(2)], after)).await?;
    assert_eq!(changed, Changed::Done { revision: 2 });
    assert_eq!(removed(two, &[file(1), file(2)]).await?, [file(1)]);
    let changed = one.cluster.change_record(names(Expected::At(2), &[], 0)).await?;
    assert_eq!(changed, Changed::Done { revision: 3 });
    Ok(())
}

async fn a_removal_that_is_not_ended_is_begun_again(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    assert_eq!(one.cluster.begin_removal(&[file(1)]).await?, [file(1)]);
    assert_eq!(one.cluster.begin_removal(&[file(1)]).await?, [file(1)], "its answer may have been lost");
    assert_eq!(two.cluster.begin_removal(&[file(1)]).await?, NONE, "another one does it");
    assert_eq!(two.cluster.begun_long_ago().await?, NONE);
    (services.pass)(BEGUN_FOR + Duration::from_secs(1)).await;
    assert_eq!(two.cluster.begun_long_ago().await?, [file(1)]);
    // Who was slower ends nothing.
    one.cluster.end_removal(&[file(1)], &[]).await?;
    let now = one.store.removals().await?;
    assert!(matches!(one.store.append(needs(1, 0, &[file(1)], now, true)).await, Err(Error::FilesRemoved)));
    two.cluster.end_removal(&[file(1)], &[]).await?;
    let now = one.store.removals().await?;
    one.store.append(needs(1, 0, &[file(1)], now, true)).await?;
    Ok(())
}

/// Where the turn of a service goes on, if it has it.
async fn turn(view: &View, every: Duration) -> Result<Option<Option<FileHash>>, Error> {
    Ok(view.cluster.take_turn(every).await?.map(|turn| turn.after))
}

async fn one_service_at_a_time_looks(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = joined(services).await? else { return Ok(()) };
    assert_eq!(turn(one, HOUR).await?, Some(None));
    assert_eq!((turn(two, HOUR).await?, two.cluster.looked_at(None).await?), (None, false));
    assert!(one.cluster.looked_at(Some(file(5))).await?);
    // One that is not heard of loses its turn, and another one goes on where it was.
    (services.pass)(Duration::from_secs(301)).await;
    assert_eq!(turn(two, HOUR).await?, Some(Some(file(5))));
    assert!(!one.cluster.looked_at(Some(file(6))).await?);
    assert!(two.cluster.looked_at(None).await?);
    assert_eq!((turn(one, HOUR).await?, turn(two, HOUR).await?), (None, None));
    assert_eq!(turn(one, Duration::ZERO).await?, Some(None));
    assert!(one.cluster.looked_at(None).await?);
    two.cluster.look_again().await?;
    assert_eq!(turn(two, HOUR).await?, Some(None));
    Ok(())
}

async fn who_has_no_lease_can_have_files_looked_for(services: &Services) -> Result<(), Error> {
    let [one, .., last] = &services.views[..] else { return Ok(()) };
    let turn_of_nobody = last.cluster.take_turn(HOUR).await;
    assert!(matches!(turn_of_nobody, Err(Error::NotOwner)), "{turn_of_nobody:?}");
    last.cluster.look_again().await?;
    let [one_joined, ..] = joined(services).await? else { return Ok(()) };
    assert_eq!(turn(one_joined, HOUR).await?, Some(None));
    assert!(one.cluster.looked_at(None).await?);
    assert_eq!(turn(one, HOUR).await?, None);
    one.cluster.leave().await?;
    one.cluster.look_again().await?;
    assert_eq!(turn(last, HOUR).await?, Some(None), "others look at once");
    Ok(())
}
