//! The clause of the contract about output of many runs at once, some of which belong to another service by now.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::future::join_all;

use super::cluster_contract::{FREE, LONG, SHORT, Services, sample};
use super::contract::{events, holds_whole_log, run};
use super::{Append, Error, ForOthers, RawPiece};
use crate::domain::fact::Stream;
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::Phase;

const RUNS: u128 = 6;

fn piece(from: u64) -> RawPiece {
    RawPiece { stream: Stream::Stdout, from, bytes: Bytes::from_static(b"line\n") }
}

/// An event, and the line of output that it is made of.
fn output(n: u128, head: u64, from: u64) -> Append {
    let for_others = ForOthers { raw: vec![piece(from)], ..ForOthers::default() };
    Append { for_others, ..events(run(n), Seq(head), 1) }
}

/// Checks the clause on a new store with several services.
pub async fn check(make: impl Fn() -> Services) -> Result<(), Error> {
    let services = make();
    let [one, two, ..] = &*services.views else { return Ok(()) };
    one.join(SHORT).await?;
    two.join(LONG).await?;
    for n in 0..RUNS {
        two.queue(&sample(n)).await?;
    }
    assert_eq!(one.cluster.take(RUNS as usize, &FREE).await?.len(), RUNS as usize);
    for n in 0..RUNS {
        one.write(&sample(n), 1, Phase::Running).await?;
    }
    for told in join_all((0..RUNS).map(|n| one.store.append(output(n, 2, 0)))).await {
        assert_eq!(told?, Seq(3));
    }
    (services.pass)(SHORT * 2).await;
    let taken: BTreeSet<RunId> = two.cluster.take_abandoned(3).await?.into_iter().collect();
    assert_eq!(taken.len(), 3);
    let late = join_all((0..RUNS).map(|n| one.store.append(output(n, 3, 5)))).await;
    for (n, told) in (0..RUNS).zip(late) {
        let raw = two.store.raw(&run(n), Stream::Stdout, 0, 99).await?;
        let head = holds_whole_log(&*two.store, run(n)).await?;
        if taken.contains(&run(n)) {
            assert!(matches!(told, Err(Error::NotOwner)), "{told:?}");
            assert_eq!((head, raw), (Seq(3), vec![piece(0)]));
        } else {
            assert_eq!((told?, head, raw), (Seq(4), Seq(4), vec![piece(0), piece(5)]));
        }
    }
    Ok(())
}
