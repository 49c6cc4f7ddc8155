//! Runs of an earlier service that are not recovered yet. A start does not wait for all of them: most are recovered in the
//! background, and first of all those of which something is asked.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::domain::ids::RunId;

/// How long a request waits for a run to be recovered: most are at once, but one with a long log takes minutes.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests that wait at once. Each keeps one of the turns in which all requests are answered.
const ASKING_MAX: usize = 8;

pub(crate) struct Unrecovered {
    runs: Mutex<Runs>,
    /// Told when runs are recovered.
    recovered: Notify,
    asking: Semaphore,
}

impl Default for Unrecovered {
    fn default() -> Self {
        let (runs, recovered) = Default::default();
        Self { runs, recovered, asking: Semaphore::new(ASKING_MAX) }
    }
}

#[derive(Default)]
struct Runs {
    /// All that are not recovered.
    left: HashSet<RunId>,
    /// Those of them that nobody has begun with.
    waiting: BTreeSet<RunId>,
    /// Those of them that somebody waits for.
    asked_for: VecDeque<RunId>,
}

impl Unrecovered {
    pub(crate) fn add(&self, runs: &[RunId]) {
        let mut all = self.runs();
        all.left.extend(runs);
        all.waiting.extend(runs);
    }

    /// The next to be recovered: those that somebody waits for, then the oldest.
    pub(crate) fn take(&self, most: usize) -> Vec<RunId> {
        let mut runs = self.runs();
        let mut taken = Vec::new();
        while taken.len() < most {
            let next = match runs.asked_for.pop_front() {
                Some(run) => runs.waiting.take(&run),
                None if runs.waiting.is_empty() => break,
                None => runs.waiting.pop_first(),
            };
            taken.extend(next);
        }
        taken
    }

    /// They are recovered, or somebody else sees to it.
    pub(crate) fn remove(&self, recovered: &[RunId]) {
        let mut runs = self.runs();
        recovered.iter().for_each(|run| _ = runs.left.remove(run));
        drop(runs);
        self.recovered.notify_waiters();
    }

    pub(crate) fn all(&self) -> HashSet<RunId> {
        self.runs().left.clone()
    }

    /// Waits for a short time until these runs are recovered; whether they are.
    pub(crate) async fn ask_for(&self, runs: &[RunId]) -> bool {
        let is_left = |runs: &[RunId]| {
            let all = self.runs();
            runs.iter().any(|run| all.left.contains(run))
        };
        if !is_left(runs) {
            return true;
        }
        let Ok(_asking) = self.asking.try_acquire() else { return false };
        let all = async {
            for run in runs {
                self.wait(*run).await;
            }
        };
        timeout(PATIENCE, all).await.is_ok()
    }

    /// Waits until the run is recovered; at once for all others.
    pub(crate) async fn wait(&self, run: RunId) {
        loop {
            // Before the look, so that no recovery is missed between the two.
            let recovered = self.recovered.notified();
            {
                let mut runs = self.runs();
                if !runs.left.contains(&run) {
                    return;
                }
                if runs.waiting.contains(&run) && !runs.asked_for.contains(&run) {
                    runs.asked_for.push_back(run);
                }
            }
            recovered.await;
        }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        // It is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use futures_util::future;
    use tokio::time::Instant;
    use uuid::Uuid;

    use super::*;

    fn waits(waiting: Pin<&mut impl Future<Output = ()>>) -> bool {
        waiting.poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending
    }

    #[test]
    fn a_run_that_somebody_waits_for_comes_first_and_nobody_waits_for_others() {
        let [one, two, three] = [1, 2, 3].map(|n| RunId(Uuid::from_u128(n)));
        let unrecovered = Unrecovered::default();
        unrecovered.add(&[one, two, three]);
        let (mut first, mut second) = (pin!(unrecovered.wait(three)), pin!(unrecovered.wait(three)));
        assert!(waits(first.as_mut()) && waits(second.as_mut()));
        assert_eq!(unrecovered.take(2), [three, one]);
        assert!(waits(first.as_mut()), "it is only begun");
        unrecovered.remove(&[three]);
        assert!(!waits(first.as_mut()) && !waits(second.as_mut()) && !waits(pin!(unrecovered.wait(three))));
        assert_eq!(unrecovered.take(2), [two]);
        assert_eq!(unrecovered.all(), HashSet::from([one, two]));
        assert!(unrecovered.take(2).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_a_short_time_for_a_run_and_few_requests_wait_at_once() {
        let [slow, quick, other] = [1, 2, 3].map(|n| RunId(Uuid::from_u128(n)));
        let unrecovered = Unrecovered::default();
        unrecovered.add(&[slow, quick]);
        assert!(unrecovered.ask_for(&[]).await && unrecovered.ask_for(&[other]).await);
        let began = Instant::now();
        assert!(!unrecovered.ask_for(&[other, slow]).await);
        assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());
        let asked = [quick];
        let all = future::join_all((0..ASKING_MAX).map(|_| unrecovered.ask_for(&asked)));
        let one_more = async {
            let began = Instant::now();
            assert!(!unrecovered.ask_for(&[quick]).await);
            assert_eq!(began.elapsed(), Duration::ZERO, "it is refused at once");
            assert!(unrecovered.ask_for(&[other]).await, "what is recovered needs no place");
            unrecovered.remove(&[quick]);
        };
        let (answers, ()) = future::join(all, one_more).await;
        assert_eq!(answers, [true; ASKING_MAX]);
    }
}
