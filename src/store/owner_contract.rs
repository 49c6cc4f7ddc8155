//! The contract of who may write what, as tests that every back end must pass: appends of runs at work, and records under a lease.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use super::cluster_contract::{LONG, SHORT, Sample, Services, View, is_not_owner, sample, waiting};
use super::contract::run;
use super::{Append, Changed, Error, Expected, IndexChange, NodeLoad, Record, RecordChange};
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::{Phase, RunState};
use crate::fcmp::{Chain, LogHead};

/// Checks every clause, each on a new store with four services.
pub async fn check(make: impl Fn() -> Services) -> Result<(), Error> {
    of_appends_of_runs_at_work_at_once_each_stands_or_fails_alone(&make()).await?;
    a_record_is_changed_under_a_lease_that_is_in_force(&make()).await
}

async fn of_appends_of_runs_at_work_at_once_each_stands_or_fails_alone(services: &Services) -> Result<(), Error> {
    let [one, two, three, ..] = &*services.views else { return Ok(()) };
    one.join(LONG).await?;
    two.join(LONG).await?;
    three.join(SHORT).await?;
    let all: Vec<Sample> = (0..=12).map(sample).collect();
    for (by, runs) in [(two, 2..=2), (three, 10..=12), (one, 0..=1), (one, 3..=9)] {
        for at in runs {
            by.queue(&all[at]).await?;
            assert_eq!(by.take(1).await?, [run(all[at].n)]);
            if at != 4 {
                by.write(&all[at], 1, Phase::Running).await?;
            }
        }
    }
    one.write(&all[3], 2, waiting()).await?;
    one.store.delete_events(&run(5)).await?;
    one.write(&all[7], 2, Phase::Succeeded).await?;
    // 0 is appended to twice, 1 is elsewhere, 2 has another owner, 3 waits and nobody has it, 4 has not begun, 5 is deleted, 6 and 8 are at
    // work, 7 is over, 20 is not there, 9 is not to be at work any more.
    let mut appends = Vec::new();
    for (n, head) in [(0, 2), (1, 5), (2, 2), (3, 3), (4, 1), (5, 2), (6, 2), (0, 3), (7, 2), (20, 2), (8, 2)] {
        appends.push(sample(n).append(head, Phase::Running)?);
    }
    appends.push(all[9].append(2, Phase::Queued)?);
    let send = |view: &View, appends: &[Append]| {
        let sent: Vec<_> = appends.iter().map(|append| view.store.append(append.clone())).collect();
        async move { join_all(sent).await.into_iter().map(|told| format!("{told:?}")).collect::<Vec<_>>() }
    };
    let (done, elsewhere) =
        (|head| format!("Ok(Seq({head}))"), |head| format!("Err(Conflict {{ actual: Seq({head}) }})"));
    let not_owner = || "Err(NotOwner)".to_owned();
    let expected = [
        done(3),
        elsewhere(2),
        not_owner(),
        done(4),
        done(2),
        elsewhere(0),
        done(3),
        done(4),
        elsewhere(3),
        elsewhere(0),
        done(3),
        done(3),
    ];
    assert_eq!(send(one, &appends).await, expected);
    // Head and row are of the same append, and nothing is left of those that were refused.
    for (append, told) in appends.iter().zip(&expected).filter(|(append, _)| append.run != run(0)) {
        let Some(IndexChange::Put(key, row)) = append.index.first() else { panic!("it has a row") };
        let is_there = two.store.index(key).await?.as_ref() == Some(row);
        // What is written again is the same.
        let was_there = append.run == run(1) || append.run == run(2) || append.run == run(5);
        assert_eq!(is_there, told.starts_with("Ok") || was_there, "{append:?}");
    }
    let owned: Vec<usize> = (0..=12).filter(|n| one.cluster.owns(run(all[*n].n))).collect();
    assert_eq!(owned, [0, 1, 4, 6, 8]);
    assert_eq!(two.take(9).await?, [run(9)]);
    // The lease of the third is over, and it does not know: one it had is taken over, one is at work and nobody has it.
    (services.pass)(SHORT * 2).await;
    let abandoned: BTreeSet<RunId> = two.cluster.take_abandoned(9).await?.into_iter().collect();
    assert!(abandoned.is_superset(&BTreeSet::from([10, 11, 12].map(run))), "{abandoned:?}");
    two.write(&all[11], 2, Phase::Running).await?;
    two.cluster.release(run(11)).await?;
    two.write(&all[12], 2, Phase::Failed).await?;
    let late = [(10, 2), (11, 3), (12, 3)].map(|(n, head)| all[n].append(head, Phase::Running));
    let late = late.into_iter().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(send(three, &late).await, [(); 3].map(|()| not_owner()));
    assert_eq!((two.store.head(&run(10)).await?, two.store.head(&run(11)).await?), (Seq(2), Seq(3)));
    Ok(())
}

async fn a_record_is_changed_under_a_lease_that_is_in_force(services: &Services) -> Result<(), Error> {
    let [one, two, ..] = &*services.views else { return Ok(()) };
    assert_eq!(one.cluster.lease(), None);
    one.join(SHORT).await?;
    two.join(LONG).await?;
    let Some(lease) = one.cluster.lease() else { panic!("it has joined") };
    let put = |expected, value: &'static str| RecordChange {
        kind: "a",
        key: "k".into(),
        expected,
        value: Some(value.into()),
        files: Vec::new(),
        put_after: 0,
    };
    let under = |view: &View, lease, change| {
        let cluster = view.cluster.clone();
        async move { cluster.change_record_under(lease, change).await }
    };
    let stored = |value: &'static str, revision| Some(Record { key: "k".into(), revision, value: value.into() });
    assert_eq!(under(one, lease, put(Expected::Absent, "1")).await?, Changed::Done { revision: 1 });
    let refused = Changed::Refused { found: stored("1", 1) };
    assert_eq!(under(one, lease, put(Expected::At(9), "2")).await?, refused);
    // It may be written by whoever asks, and renewed in between.
    one.cluster.renew(NodeLoad::default()).await?;
    assert_eq!(under(two, lease, put(Expected::At(1), "2")).await?, Changed::Done { revision: 2 });
    assert!(!two.cluster.lease_is_over(lease).await?);
    (services.pass)(SHORT * 2).await;
    // Also before anybody has looked.
    is_not_owner(under(one, lease, put(Expected::At(2), "3")).await);
    assert!(two.cluster.lease_is_over(lease).await?);
    is_not_owner(one.cluster.renew(NodeLoad::default()).await);
    // A service that joins again has another one.
    one.join(LONG).await?;
    let later = one.cluster.lease().filter(|later| *later != lease);
    let Some(later) = later else { panic!("it is the same lease") };
    is_not_owner(under(one, lease, put(Expected::Any, "4")).await);
    assert_eq!((two.cluster.lease_is_over(lease).await?, two.cluster.lease_is_over(later).await?), (true, false));
    assert_eq!(two.cluster.record("a", "k").await?, stored("2", 2));
    assert_eq!(under(one, later, put(Expected::Any, "4")).await?, Changed::Done { revision: 3 });
    // So has one that joins before its lease was over, as after a kill and a start.
    one.join(LONG).await?;
    assert!(two.cluster.lease_is_over(later).await?);
    let Some(last) = one.cluster.lease() else { panic!("it has joined") };
    one.cluster.leave().await?;
    assert_eq!((one.cluster.lease(), two.cluster.lease_is_over(last).await?), (None, true));
    is_not_owner(under(one, last, put(Expected::Any, "5")).await);
    Ok(())
}

/// The row of a run at work, about so long.
pub fn row_at_work(n: u128, length: usize) -> Vec<u8> {
    let mut state = RunState { phase: Phase::Running, ..sample(n).state() };
    let row = |state: &RunState| {
        let head = LogHead { state: state.clone(), chain: Chain::start(run(n)) };
        head.to_row().unwrap_or_default()
    };
    state.skill.fingerprint = "f".repeat(length.saturating_sub(row(&state).len()));
    row(&state)
}
